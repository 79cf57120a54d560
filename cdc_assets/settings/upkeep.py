"""The settings of the tables' upkeep."""

from pydantic import Field

from cdc_assets.settings.values import SettingsModel

RETENTION_HOURS_MIN = 24
"""A call or a reader that works on a version may take this long before its files may go."""

RETENTION_HOURS_MAX = 30 * 24
"""Beyond this the log would go before the files."""


SILVER_FILE_MB = 8
"""Size of silver's files where the settings say nothing: half a million narrow rows."""


class MaintenanceSettings(SettingsModel):
    """What upkeep does to the tables, weekly or when it is called."""

    retention_hours: int = Field(default=168, ge=RETENTION_HOURS_MIN, le=RETENTION_HOURS_MAX)
    """Hours that the files of an older version stay: longer than any sync, backfill, apply or query
    takes, since those read the version that they began with."""

    bronze_file_mb: int = Field(default=128, ge=1, le=4096)
    """Size of bronze's files, about; smaller ones are put together."""

    silver_file_mb: int = Field(default=SILVER_FILE_MB, ge=1, le=4096)
    """Size of silver's files, about. A MERGE writes each file anew that it changes a row of; a
    table of a terabyte wants larger ones, or Spark, which marks rows."""

    facts_retention_days: int = Field(default=365, ge=1, le=36_500)
    """Days that the rows of batches stay in the facts; events stay, and each table's newest."""
