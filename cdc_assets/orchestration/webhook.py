"""Posting a document to a webhook, by the standard library."""

import json
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.request import HTTPRedirectHandler, Request, build_opener

_BODY_READ_MAX = 1 << 16
"""Bytes of an answer that are read."""


class _NoRedirects(HTTPRedirectHandler):
    """A redirected post would become a request without its body."""

    def redirect_request(
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        return None


def post(url: str, document: Mapping[str, Any], timeout_seconds: float) -> str | None:
    """Post a document as JSON: None once it was taken, else why not, without the URL.

    Taken is what is answered with 2xx. Nothing is raised for an answer, or for want of one.
    """
    body = json.dumps(document).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "cdc-assets"}
    try:
        request = Request(url, data=body, headers=headers, method="POST")  # noqa: S310 - checked
        with build_opener(_NoRedirects).open(request, timeout=timeout_seconds) as answer:
            answer.read(_BODY_READ_MAX)
    except TimeoutError:
        return f"it did not answer within {timeout_seconds:g} s"
    except OSError as error:
        # Of an HTTPError the status; of an URLError why nobody answered. Neither has the URL.
        status = getattr(error, "code", None)
        reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
        return f"it answered {status} {reason}" if status else f"it did not answer: {reason}"
    except HTTPException as error:
        return f"it did not answer in HTTP: {type(error).__name__}"
    except ValueError:
        return "it is no URL that can be posted to"
    return None
