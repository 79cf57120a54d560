-- A database to load: a table with rows, change data capture, and a login with its two grants.
-- $(READER_PASSWORD) is sqlcmd's: it takes it from the environment. It may run again.
IF DB_ID(N'sales') IS NULL
    CREATE DATABASE sales;
GO
USE sales;
GO
IF NOT EXISTS (SELECT 1 FROM sys.databases WHERE name = DB_NAME() AND is_cdc_enabled = 1)
    EXEC sys.sp_cdc_enable_db;
GO
IF OBJECT_ID(N'dbo.orders') IS NULL
    CREATE TABLE dbo.orders (
        order_id int NOT NULL PRIMARY KEY,
        customer nvarchar(40) NOT NULL,
        total_price decimal(15, 2) NOT NULL);
GO
IF NOT EXISTS (SELECT 1 FROM dbo.orders)
    INSERT dbo.orders VALUES (1, N'Ann', 9.75), (2, N'Bo', 3.25), (3, N'Cy', 12.00);
GO
IF NOT EXISTS (SELECT 1 FROM cdc.change_tables WHERE capture_instance = N'dbo_orders')
    EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'orders',
        @role_name = NULL, @supports_net_changes = 0;
GO
BEGIN TRY
    CREATE LOGIN cdc_reader WITH PASSWORD = N'$(READER_PASSWORD)';
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() <> 15025 THROW; -- it is there already
END CATCH
GO
BEGIN TRY
    CREATE USER cdc_reader FOR LOGIN cdc_reader;
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() <> 15023 THROW; -- it is there already
END CATCH
GO
GRANT SELECT ON dbo.orders TO cdc_reader;
GRANT SELECT ON cdc.dbo_orders_CT TO cdc_reader;
GO
