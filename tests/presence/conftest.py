from tests.admin.conftest import log

__all__ = ["log"]
