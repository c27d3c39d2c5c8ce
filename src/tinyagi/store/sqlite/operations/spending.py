"""What runs cost, added up per day and scope in the transaction that ends them."""

from collections.abc import Iterable

from tinyagi.domain.spending import Charge
from tinyagi.store.sqlite.transaction import Transaction


def add_charges(tx: Transaction, charges: Iterable[Charge]) -> None:
    rows = [(charge.day, scope, charge.tokens, charge.cost) for charge in charges for scope in charge.scopes]
    tx.connection.executemany(tx.sql["add_spend"], rows)
