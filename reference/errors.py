"""The errors a user can cause. Each is one sentence; the command line turns its `exit_code` into the verdict."""


class GnomonError(Exception):
    """Something the user can mend: the message says what was found, what was expected, what to do."""

    exit_code = 2


class UsageError(GnomonError):
    """An argument that cannot be meant: unknown engine, token id out of range, no ids."""


class ModelError(GnomonError):
    """A model file that is broken, incomplete, or asks for something the contract does not name."""


class UnknownTokenizerError(ModelError):
    """A tokenizer of a kind that is not known here; the weights beside it may still be used, with ids."""


class NotRunError(GnomonError):
    """Something required could not be run: no device, no compiler, an extra that is not installed."""

    exit_code = 3


class NonFiniteError(GnomonError):
    """A run produced NaN or infinity: the contract promises no byte after that, so the step is not committed."""

    exit_code = 1
