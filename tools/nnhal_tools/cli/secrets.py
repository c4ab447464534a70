"""``nnhal secrets``: tokens, an admin key and certificates, made where there are none."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from nnhal.given_files import read_given_text
from nnhal_tools.credentials import ROLES, CredentialFolders, make_admin_key, make_certificate, make_tokens, token_path


def secrets(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the folders are, or are made.")],
    certificate: Annotated[
        str, typer.Option(metavar="NAMES", help="Also a certificate for these host names and addresses, with commas.")
    ] = "",
    show: Annotated[str, typer.Option(metavar="ROLE", help="Print the token of a role, and make nothing.")] = "",
) -> None:
    """Make an admin key, tokens and a certificate for a testbed where there are none, and print where they are.

    DIR/operators holds the admin key and the token of the role admin. DIR/servers holds the digests of all tokens and
    the server's certificate. DIR/clients holds the tokens of the roles view and infer, and the certificate's authority.
    Files that are there stay as they are, so that you can put your own there first.
    """
    folders = CredentialFolders(directory)
    if show:
        if show not in ROLES:
            raise ValueError(f"--show {show}: expected {', '.join(ROLES)}")
        print(read_given_text(token_path(folders, show), "a token").strip())
        return
    folders.create()
    names = [name.strip() for name in certificate.split(",") if name.strip()]
    certificates = make_certificate(folders, names) if names else ()
    for path in chain(make_admin_key(folders), make_tokens(folders), certificates):
        print(f"made {path}")
