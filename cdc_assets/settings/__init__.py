"""`tables.yaml`: what is loaded from where; validated before anything connects."""

from cdc_assets.settings.load import find_settings, load_settings
from cdc_assets.settings.model import DatabaseSettings, Settings
from cdc_assets.settings.tables import EngineName, FinalitySettings, TableSettings

__all__ = [
    "DatabaseSettings",
    "EngineName",
    "FinalitySettings",
    "Settings",
    "TableSettings",
    "find_settings",
    "load_settings",
]
