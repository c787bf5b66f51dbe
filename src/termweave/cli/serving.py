"""The server: `serve`, and the `keys` it asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termweave.cli.application import Device, Precision, app, warn

if TYPE_CHECKING:
    from termweave.server.keys import KeyStore


def _without_password_in_sight(context: typer.Context, store: str) -> str:
    source = context.get_parameter_source("store")
    if source is not None and source.name == "COMMANDLINE" and re.match(r"\w+://[^@/]*:.+@", store):
        warn("the password in --store can be read in lists of processes; put the address into TERMWEAVE_STORE instead")
    return store


Store = Annotated[
    str,
    typer.Option(
        envvar="TERMWEAVE_STORE",
        callback=_without_password_in_sight,
        metavar="FILE or postgresql://USER@HOST/DATABASE",
        help="What holds glossaries and keys: a file, made where it is missing, or a PostgreSQL database, which "
        "several servers can share. An address with a password belongs into the variable: everybody on the machine "
        "can read the options of a process.",
    ),
]
STORE = "termweave.sqlite"
_MOST = 1_000_000_000  # more is a slip of the finger
_MOST_CHARACTERS = 1_000_000_000_000  # what keys without a limit are told to have


@app.command()
def serve(
    model: Annotated[Path | None, typer.Option(help="Model folder; default: the ready model.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than this machine's need keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8080,
    store: Store = STORE,
    device: Device = "auto",
    precision: Precision = "auto",
    batch_tokens: Annotated[int, typer.Option(min=1, max=_MOST, help="Source subwords translated at once.")] = 4096,
    patience: Annotated[
        float, typer.Option(min=0, max=1000, help="Milliseconds that a request waits for others to share a batch.")
    ] = 5.0,
    queue_tokens: Annotated[
        int, typer.Option(min=1, max=_MOST, help="Source subwords that may wait; more are refused at once (503).")
    ] = 200_000,
    requests_per_minute: Annotated[int, typer.Option(min=0, max=_MOST, help="Of one key; 0: no limit.")] = 600,
) -> None:
    """Serve translations over HTTP: DeepL's interface, LibreTranslate's, and our own (see /docs there).

    Without keys (`termweave keys`), only programs on this machine are served.

    Examples:

    `termweave serve --model runs/toy/model/stage2/final`

    `termweave serve --model MODEL --host 0.0.0.0 --port 80 --store store.sqlite --precision int8`

    `TERMWEAVE_STORE=postgresql://termweave:PASSWORD@db.example/termweave termweave serve --model MODEL --host 0.0.0.0`
    """
    from termweave.server.run import serve as run
    from termweave.server.settings import Gathering, Limits, Settings

    limits = Limits(requests_per_minute=requests_per_minute)
    gathering = Gathering(batch_tokens=batch_tokens, patience=patience / 1000, queued_tokens=queue_tokens)
    run(model, store, host, port, device, precision, Settings(limits, gathering))


_ABOUT_KEYS = """API keys of a server: make, list and revoke them.

Example: `termweave keys create NAME`
"""
keys = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help=_ABOUT_KEYS)
app.add_typer(keys, name="keys")


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose key it is, or what for.")],
    store: Store = STORE,
    characters: Annotated[
        int | None,
        typer.Option(min=1, max=_MOST_CHARACTERS, help="Characters it may have translated a month; default: no limit."),
    ] = None,
) -> None:
    """Make a key. It is shown once; only its hash is kept. A running server knows it at once.

    Example: `termweave keys create 'documentation team' --characters 1000000`
    """
    key, secret = _keys(store).create(name, characters)
    typer.echo(f"key {key.id} for {key.name!r}, shown this once:", err=True)
    typer.echo(secret)


@keys.command(name="list")
def list_keys(store: Store = STORE) -> None:
    """List the keys, without their secrets.

    Example: `termweave keys list --store termweave.sqlite`
    """
    for key in _existing_keys(store).list():
        limit = "no limit" if key.character_limit is None else f"{key.character_limit:,} characters a month"
        state = f"revoked {key.revoked}" if key.revoked else "valid"
        typer.echo(f"{key.id}  {key.name}  made {key.created}  {limit}  {state}")


@keys.command()
def revoke(identifier: Annotated[str, typer.Argument(help="Its id, as listed.")], store: Store = STORE) -> None:
    """Revoke a key. A running server refuses it from the next request on.

    Example: `termweave keys revoke 1f3a9c22`
    """
    key = _existing_keys(store).revoke(identifier)
    typer.echo(f"{key.id} ({key.name}) is revoked")


def _keys(store: str) -> KeyStore:
    from termweave.server.database import Database
    from termweave.server.keys import KeyStore

    return KeyStore(Database(store))


def _existing_keys(store: str) -> KeyStore:
    """To look into a store must not make one: a name mistyped would look like a store without keys."""
    from termweave.errors import StoreError
    from termweave.server.database import is_address

    if not is_address(store) and not Path(store).exists():
        raise StoreError(
            f"there is no store {store}; name one with --store, or make it with `termweave keys create NAME`"
        )
    return _keys(store)
