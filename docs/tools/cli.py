"""Write docs/cli.md: the command line, from its parser.

python docs/tools/cli.py [--check]
"""

import argparse
import sys
from pathlib import Path

from lmma.cli import COMMANDS, all_commands, build_parser
from lmma.cli.extensions import EXTERNAL_COMMANDS, Command

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "cli.md"

HEAD = """\
# Command line

Made from the parser; `lmma COMMAND --help` prints the same. `python -m lmma` is `lmma` where the command is
not on the path. Progress goes to standard error, results to standard output.

| command | what it does |
|---|---|
"""


def page() -> str:
    """Return the text of the page."""
    commands = COMMANDS | {name: all_commands()[name] for name in EXTERNAL_COMMANDS}
    rows = [f"| [`lmma {name}`](#lmma-{name}) | {summary} |\n" for name, (summary, _) in commands.items()]
    return HEAD + "".join(rows) + "".join(_command(name, commands) for name in commands)


def _command(name: str, commands: dict[str, Command]) -> str:
    parser = _subparser(build_parser(name, commands), name)
    words = [f"\n## lmma {name}\n\n{parser.description}\n"]
    for group in parser._action_groups:
        rows = [_row(action) for action in group._group_actions if action.dest not in ("help", "bench")]
        if rows and not any(isinstance(a, argparse._SubParsersAction) for a in group._group_actions):
            title = {"positional arguments": "Arguments", "options": "Options"}.get(
                group.title or "", group.title
            )
            words.append(
                f"\n**{(title or '').capitalize()}**\n\n| option | meaning |\n|---|---|\n" + "".join(rows)
            )
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words.append("\n| subcommand | what it does |\n|---|---|\n")
            words += [f"| `{choice.dest}` | {_cell(choice.help)} |\n" for choice in action._choices_actions]
    if parser.epilog:
        words.append(f"\n```text\n{parser.epilog.strip()}\n```\n")
    return "".join(words)


def _subparser(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices[name]
    raise LookupError(name)


def _row(action: argparse.Action) -> str:
    shown = (
        "{" + ",".join(map(str, action.choices)) + "}"
        if action.choices
        else str(action.metavar or action.dest)
    )
    if not action.option_strings:
        names = shown
    elif action.nargs == 0:
        names = ", ".join(action.option_strings)
    else:
        names = f"{', '.join(action.option_strings)} {shown}"
    text = (action.help or "").replace("%%", "%")
    if "%(" in text:
        text = text % vars(action)
    return f"| `{_cell(names)}` | {_cell(text)} |\n"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else "docs/cli.md is out of date")
    PAGE.write_text(page(), encoding="utf-8")
