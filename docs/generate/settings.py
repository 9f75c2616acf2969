"""The page of settings, from the table that flags, environment and file are read by."""

from defib.config import FILE_VARIABLE, SETTINGS, Setting

HEAD = f"""# Settings of `defib run`

Each setting can be given in three ways. A flag beats the environment, the environment beats the file, the file beats the
default.

| way | example |
|---|---|
| flag | `defib run --log-level debug` |
| environment; an empty variable counts as not set | `DEFIB_LOG_LEVEL=debug defib run` |
| file, YAML; named by `--config` or `{FILE_VARIABLE}` | `log_level: debug` |

Names that are no settings, and values that are not allowed, are errors wherever they stand, even where a stronger way
hides them: `defib run` names all of them, one line each, and ends with exit code 2. Only the variables that Kubernetes
itself makes for a service called `defib` (`DEFIB_SERVICE_HOST`, `DEFIB_PORT` and the like) are passed over.

| flag | environment | file | default | may be |
|---|---|---|---|---|
"""


def settings_page() -> str:
    rows = "".join(_row(setting) for setting in SETTINGS)
    details = "".join(f"\n## {setting.key}\n\n{setting.about.description}\n" for setting in SETTINGS)
    return HEAD + rows + details


def _row(setting: Setting) -> str:
    default = f"`{setting.default_text}`" if setting.default_text else "not set"
    return f"| `{setting.flag}` | `{setting.variable}` | `{setting.key}` | {default} | {setting.about.form.allowed} |\n"
