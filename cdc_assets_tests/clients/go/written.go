package main

import (
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/golang-sql/civil"
	mssql "github.com/microsoft/go-mssqldb"
)

// parameter gives a value that was read the type it is written with.
func parameter(value any, column *sql.ColumnType) (any, error) {
	kind := column.DatabaseTypeName()
	switch typed := value.(type) {
	case nil:
		if strings.HasSuffix(kind, "BINARY") || kind == "IMAGE" {
			return []byte(nil), nil // no other NULL becomes binary without a conversion
		}
	case []byte:
		switch kind {
		case "DECIMAL", "MONEY", "SMALLMONEY":
			return string(typed), nil
		case "UNIQUEIDENTIFIER":
			var id mssql.UniqueIdentifier
			return id, id.Scan(typed)
		}
	case time.Time:
		switch kind {
		case "DATE":
			return civil.DateOf(typed), nil
		case "TIME":
			return civil.TimeOf(typed), nil
		case "DATETIME", "SMALLDATETIME":
			return mssql.DateTime1(typed), nil
		case "DATETIME2":
			return civil.DateTimeOf(typed), nil
		}
	}
	return value, nil
}

func typesWritten(c *Client) (any, error) {
	table, names, marks := "dbo.go_types", []string{}, []string{"@p1"}
	for place, column := range c.expected.Types.Columns {
		names = append(names, column.Name)
		marks = append(marks, fmt.Sprintf("@p%d", place+2))
	}
	ddl := strings.ReplaceAll(c.expected.Types.DDL, c.expected.Types.Table, table)
	if _, err := c.db.Exec(ddl); err != nil {
		return nil, err
	}
	insert := strings.NewReplacer(
		"{table}", table,
		"{columns}", strings.Join(names, ", "),
		"{values}", strings.Join(marks, ", "),
	).Replace(c.expected.TypesWritten.Insert)
	rows, err := c.db.Query("SELECT id, " + strings.Join(names, ", ") +
		" FROM " + c.expected.Types.Table + " ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	kinds, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	values, targets := make([]any, len(kinds)), make([]any, len(kinds))
	for place := range values {
		targets[place] = &values[place]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		given := make([]any, len(values))
		for place, value := range values {
			if given[place], err = parameter(value, kinds[place]); err != nil {
				return nil, err
			}
		}
		if _, err := c.db.Exec(insert, given...); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return textOf(c, table)
}

func outputParameters(c *Client) (any, error) {
	order, sum := c.expected.Output, int64(0)
	_, err := c.db.Exec(order.SQL,
		sql.Named("a", order.In.A),
		sql.Named("b", sql.Out{Dest: &sum}),
		sql.Named("s", sql.Out{Dest: &order.In.S, In: true}))
	return map[string]string{"b": fmt.Sprint(sum), "s": order.In.S}, err
}

// savepoint: database/sql has no call for it, so it is a statement.
func savepoint(c *Client) (any, error) {
	into, err := c.scratch("savepoint")
	if err != nil {
		return nil, err
	}
	open, err := c.db.Begin()
	if err != nil {
		return nil, err
	}
	defer open.Rollback() //nolint:errcheck // after a commit there is nothing left to undo
	order := c.expected.Savepoint
	for _, statement := range []string{
		into(order.Kept), "SAVE TRANSACTION here", into(order.Undone), "ROLLBACK TRANSACTION here",
	} {
		if _, err := open.Exec(statement); err != nil {
			return nil, err
		}
	}
	if err := open.Commit(); err != nil {
		return nil, err
	}
	return fetch(c.db, into(order.Read))
}
