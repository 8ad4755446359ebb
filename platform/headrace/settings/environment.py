"""The base of settings that are read from the environment: a value of the wrong kind is refused by its variable's name."""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsError

from headrace.errors import TerminalError


class EnvironmentSettings(BaseSettings):
    """Settings of which each field is a variable: the prefix of the class, and the field's name in capitals."""

    def __init__(self, **values: Any) -> None:
        """In: values  values that are not read.

        Raises: TerminalError naming each variable whose value is wrong
        """
        try:
            super().__init__(**values)
        except (ValidationError, SettingsError) as error:
            raise refused(type(self), error) from None


def refused(section: type[BaseSettings], error: ValidationError | SettingsError) -> TerminalError:
    """The error for values that a class of settings does not take; it shows none of them."""
    prefix = section.model_config.get("env_prefix", "")
    if isinstance(error, ValidationError):
        told = (
            f"{prefix}{each['loc'][0] if each['loc'] else ''}".upper() + f": {each['msg']}"
            for each in error.errors()
        )
        wrong = "; ".join(told)
    else:
        wrong = re.sub(
            r'field "(\w+)" from source.*', lambda match: f"{prefix}{match[1]}".upper(), str(error)
        )
    return TerminalError(
        "A setting has a value that it does not take.",
        detail=wrong,
        hint="docs/settings.md says what each variable takes.",
    )
