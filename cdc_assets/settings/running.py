"""How a database's runs are started and what they tell: silver's turn, polling on, alerts."""

from enum import StrEnum

from pydantic import Field

from cdc_assets.settings.values import SettingsModel

CONTINUOUS_MINUTES_MAX = 24 * 60
"""Minutes that one run may poll: a day, so that changed settings are read by then."""

WEBHOOK_PATTERN = r"^(https?://|env:|file:).+$"
"""A URL, or where it is written."""

WEBHOOK_VARIABLE = "CDC_ALERTS_WEBHOOK"
"""The variable that holds it where the settings name no other place."""


class SilverTrigger(StrEnum):
    """When silver follows bronze."""

    SENSOR = "sensor"
    SAME_RUN = "same_run"


class ContinuousSettings(SettingsModel):
    """A run that keeps polling, and brings bronze and silver along each time."""

    minutes: float = Field(default=60.0, gt=0, le=CONTINUOUS_MINUTES_MAX)
    """Minutes after which the run ends; the schedule then starts the next one."""

    poll_seconds: float = Field(default=5.0, ge=0.1, le=3600)
    """Seconds from the end of one look at the source to the next."""


class AlertSettings(SettingsModel):
    """Who is told when a check turns red or green again, or runs fail for a new reason."""

    webhook: str = Field(default=f"env:{WEBHOOK_VARIABLE}", pattern=WEBHOOK_PATTERN, repr=False)
    """URL that a JSON document with a text is posted to; better `env:NAME` of a variable or
    `file:PATH` of a file that holds it, since whoever knows it can write there."""

    timeout_seconds: float = Field(default=5.0, gt=0, le=30)
    """Seconds that a post may wait for an answer; one that failed is made again a tick later."""
