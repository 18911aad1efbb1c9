"""Object stores: paths that name no file in a bucket, and what to do about what a store's library raises."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from traceback import walk_tb
from typing import Any

from pbio_spark.errors import PbioError

BUCKETS = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "r2"})
"""Protocols of object stores, which have buckets instead of folders."""
_KEYS = BUCKETS | {"memory"}
"""Protocols that take a path for a key: each of its characters counts."""
_LISTED = frozenset({"s3", "s3a", "memory"})
"""Of these, those in whose listings an empty name can be told from the folder itself."""


def check_key(url: str) -> None:
    """Raise PBIO_BAD_PATH for the URL of an object store in which a name is empty, `.` or `..`.

    A store leads nowhere by them: `a//b`, `a/./b` and `x/../a/b` are other objects than `a/b`. Hadoop's file systems,
    and so Spark's own sources, take them for `a/b`; fsspec cannot list what is below an empty name.
    """
    protocol, _, rest = url.partition("://")
    if protocol.lower() not in _KEYS:
        return
    bucket, *names = (rest.removeprefix("/") if protocol.lower() == "memory" else rest).split("/")
    if names and not names[-1]:
        names.pop()
    odd = next((name for name in names if name in ("", ".", "..")), None)
    if odd is None:
        return
    said = f"the name {odd!r}" if odd else "an empty name, between two slashes"
    plain = f"{protocol}://{bucket}{posixpath.normpath('/' + '/'.join(filter(None, names)))}"
    raise PbioError(
        "PBIO_BAD_PATH",
        f"the path has {said}: in a bucket that is part of an object's key, and leads to no other folder",
        file=url,
        hint=f"if you mean {plain}, write that; otherwise copy the objects to keys without such names",
    )


def check_listed(folder: str, info: Mapping[str, Any]) -> None:
    """Raise PBIO_BAD_PATH for an entry with an empty name in a folder's listing: no path leads to what is below it.

    An empty object of that name marks the folder itself, as the consoles of stores make them.
    """
    is_empty_name = info["name"].endswith("/") and (info["type"] == "directory" or info["size"])
    if not is_empty_name or folder.partition("://")[0] not in _LISTED:
        return
    raise PbioError(
        "PBIO_BAD_PATH",
        f"the bucket holds objects whose keys begin with {info['name'] + '/'!r}: no path leads to them",
        file=folder,
        hint="copy these objects to keys without an empty name between slashes, and remove them; or load single files",
    )


_NO_CREDENTIALS = (
    "give the credentials where this process runs, and to Spark's workers: AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, a profile (AWS_PROFILE), or a role of the machine"
)
_EXPIRED = "the credentials have expired: get new ones, and start the processes that hold the old ones again"
_WRONG_KEY = "check the access key and the secret, and that they belong to this store (AWS_ENDPOINT_URL)"
_ACCESS = (
    "check what the credentials may do: to read takes s3:GetObject and s3:ListBucket, to write s3:PutObject and "
    "s3:DeleteObject, too"
)
_REGION = "the bucket is in another region: set AWS_DEFAULT_REGION to the region of the bucket"
_REACH = "check the network and the endpoint (AWS_ENDPOINT_URL, or endpoint_url in FSSPEC_S3), and try again"
_TLS = "check that the endpoint speaks https, and set AWS_CA_BUNDLE if its certificate is of your own authority"
_NAME = "check the name of the bucket: lower-case letters, digits, hyphens and dots"
_BUSY = "the store is busy: try again later, or with fewer tasks at a time"

_REFUSALS = {
    "NoCredentialsError": _NO_CREDENTIALS,
    "PartialCredentialsError": _NO_CREDENTIALS,
    "CredentialRetrievalError": _NO_CREDENTIALS,
    "ProfileNotFound": "check AWS_PROFILE, and that ~/.aws/config of this machine's user has that profile",
    "TokenRetrievalError": _EXPIRED,
    "UnauthorizedSSOTokenError": _EXPIRED,
    "SSOTokenLoadError": _EXPIRED,
    "DefaultCredentialsError": "give the credentials where this process runs: GOOGLE_APPLICATION_CREDENTIALS",
    "RefreshError": _EXPIRED,
    "ClientAuthenticationError": "check the credentials of the storage account where this process runs",
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "InvalidToken": _EXPIRED,
    "InvalidAccessKeyId": _WRONG_KEY,
    "SignatureDoesNotMatch": _WRONG_KEY,
    "AccessDenied": _ACCESS,
    "403": f"{_ACCESS}; or they have expired, or are of another store",
    "AllAccessDisabled": _ACCESS,
    "RequestTimeTooSkewed": "set the clock of this machine: it differs too much from the store's",
    "InvalidObjectState": "the object is archived: restore it first",
}
"""Classes of exceptions, and codes of S3's replies, after which nothing has happened; and what to do."""

_FAILURES = {
    "SSLError": _TLS,
    "ProxyConnectionError": "check HTTP_PROXY and HTTPS_PROXY, and set NO_PROXY for stores that are reached directly",
    "EndpointConnectionError": _REACH,
    "ConnectTimeoutError": _REACH,
    "ConnectionClosedError": _REACH,
    "ReadTimeoutError": _REACH,
    "HTTPClientError": _REACH,
    "NoRegionError": "set AWS_DEFAULT_REGION to the region of the bucket",
    "InvalidRegionError": "check AWS_DEFAULT_REGION: a region is a name such as eu-central-1",
    "ParamValidationError": _NAME,
    "InvalidBucketName": _NAME,
    "PermanentRedirect": _REGION,
    "TemporaryRedirect": _REGION,
    "301": _REGION,
    "307": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "400": "the store does not say why: check AWS_DEFAULT_REGION, and whether the credentials have expired",
    "SlowDown": _BUSY,
    "ServiceUnavailable": _BUSY,
    "503": _BUSY,
}
"""The same for all other failures."""
_S3 = ("botocore", "aiobotocore")
_LIBRARIES = (*_S3, "google", "azure")


def refusal_hint(error: BaseException) -> str | None:
    """What to do about an exception by which a store refuses a request; None for any other one."""
    return next((_REFUSALS[name] for name in _names(error) if name in _REFUSALS), None)


def failure_hint(error: BaseException) -> str | None:
    """What to do about any other exception of a store's library; None if it is not known."""
    known = next((_FAILURES[name] for name in _names(error) if name in _FAILURES), None)
    if isinstance(error, RecursionError) and is_raised_by_s3(error):
        return _REGION  # the library follows redirects that name no region for ever
    if known is None and isinstance(error, ValueError) and is_raised_by_s3(error):
        return "check the endpoint (AWS_ENDPOINT_URL, or endpoint_url in FSSPEC_S3): a URL such as https://host:9000"
    return known


def is_raised_by_s3(error: BaseException) -> bool:
    """Whether S3's library raised an exception, of whatever class: it refuses some settings with a ValueError."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    # Too deep a recursion ends in whatever the library calls.
    within = frames if isinstance(error, RecursionError) else frames[-1:]
    return any(str(frame.f_globals.get("__name__", "")).partition(".")[0] in _S3 for frame in within)


def _names(error: BaseException | None) -> Iterator[str]:
    """The code of a store's reply and the classes of an exception, and of those that caused it."""
    for _ in range(8):  # causes may form a loop
        if error is None:
            return
        response = getattr(error, "response", None)
        if isinstance(response, dict) and isinstance(said := response.get("Error"), dict):
            yield str(said.get("Code"))
        yield from (kind.__name__ for kind in type(error).__mro__ if kind.__module__.partition(".")[0] in _LIBRARIES)
        error = error.__cause__ or error.__context__
