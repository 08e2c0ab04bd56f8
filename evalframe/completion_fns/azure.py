"""
Chat completions of Azure OpenAI, where a deployment stands for the model.

Two forms of address are spoken. With a dated API version: ENDPOINT/openai/deployments/NAME/chat/completions?api-version=VERSION. Without
one, the newer form: ENDPOINT/openai/v1/chat/completions, with the deployment as the model. The key goes into the header `api-key`;
OPENAI_API_KEY and OPENAI_BASE_URL mean nothing here. A filtered prompt or answer is a refusal that names its categories; the filter's whole
report stands in the raw reply.

Covers: addresses as the portal shows them, with a deployment and a version in them; gateways, by `base_url`; Microsoft Entra, by a token
that is given.
Does not cover: fetching such a token, or a new one when it runs out.

Fields after Microsoft's "Azure OpenAI in Microsoft Foundry Models v1 API", "Content filtering annotations" and "Troubleshoot common HTTP
errors for Azure OpenAI" (learn.microsoft.com/azure/foundry/openai); read 2026-12-01.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from evalframe.completion_fns.endpoint import Home
from evalframe.completion_fns.openai import PARAMETERS, OpenAIChatCompletionFn
from evalframe.completion_fns.remote import RemoteCompletion
from evalframe.core.completion import Reply
from evalframe.core.errors import BadArguments
from evalframe.core.prompts import Prompt, as_messages

ENDPOINT_VARIABLE = "AZURE_OPENAI_ENDPOINT"
KEY_VARIABLE = "AZURE_OPENAI_API_KEY"
TOKEN_VARIABLE = "AZURE_OPENAI_AD_TOKEN"  # noqa: S105 - the name of a variable
VERSION_VARIABLE = "OPENAI_API_VERSION"
UNDATED = ("v1", "preview", "latest")
"""API versions of the newer form of address; "v1" is not even sent."""
OWN_PATH = re.compile(r"/openai(?:/v1|/deployments/(?P<deployment>[^/]+))?(?:/chat/completions)?/*$")
"""What the portal shows after the endpoint."""


class AzureOpenAIChatCompletionFn(OpenAIChatCompletionFn):
    """
    Ask a deployment of Azure OpenAI.

    Args:
        model: The deployment's name, where `azure_deployment` does not say it; else what the log calls the model.
        azure_endpoint: https://RESOURCE.openai.azure.com; else `AZURE_OPENAI_ENDPOINT`.
        azure_deployment: The deployment's name.
        api_version: Such as 2024-10-21; else `OPENAI_API_VERSION`; without one, or with "v1", the form of address without versions.
        base_url: In place of azure_endpoint. On one that has a path, "/chat/completions" follows, and the deployment is sent as the model.
        api_key: The key; else the variable that `api_key_env` names, else `AZURE_OPENAI_API_KEY`.
        azure_ad_token: A token of Microsoft Entra in place of a key; else, where there is no key, `AZURE_OPENAI_AD_TOKEN`.
        arguments: As for `RemoteCompletionFn`.

    Raises:
        BadArguments: If no deployment is named, or no endpoint; see also `RemoteCompletionFn`.
    """

    provider: ClassVar[str] = "azure"
    home: ClassVar[Home] = Home(base_url_env=ENDPOINT_VARIABLE, api_key_env=KEY_VARIABLE, key_header="api-key")
    PARAMETERS: ClassVar[frozenset[str]] = PARAMETERS | {"data_sources", "user_security_context"}

    def __init__(
        self,
        model: str | None = None,
        *,
        azure_endpoint: str | None = None,
        azure_deployment: str | None = None,
        api_version: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        azure_ad_token: str | None = None,
        **arguments: Any,
    ) -> None:
        version = str(api_version or "").strip()  # YAML reads 2024-10-21 as a date
        if base_url and azure_endpoint:
            raise BadArguments("base_url and azure_endpoint both say where the deployment is found.", do="Give one of them.")
        parts = endpoint_parts(base_url, azure_endpoint)
        shown = OWN_PATH.search(parts.path)
        deployment = azure_deployment or model or (unquote(shown["deployment"]) if shown and shown["deployment"] else None)
        if not deployment:
            raise BadArguments("Azure needs to know which deployment is asked.", do="Name it: azure_deployment=NAME, or azure/NAME.")
        self.deployment, self.is_dated = str(deployment), False
        if not base_url or not parts.path.strip("/"):
            version = version or dict(parse_qsl(parts.query)).get("api-version") or ("" if is_v1(parts) else version_of_environment())
            self.is_dated = bool(version) and version.lower() not in UNDATED
            named = f"deployments/{quote(self.deployment, safe='')}" if self.is_dated else "v1"
            root = parts.path[: shown.start()] if shown else parts.path.rstrip("/")
            parts = parts._replace(path=f"{root}/openai/{named}")
        has_key = api_key or os.environ.get(str(arguments.get("api_key_env") or KEY_VARIABLE), "").strip()
        token = azure_ad_token or (not has_key and os.environ.get(TOKEN_VARIABLE, "").strip())
        if token:
            api_key, arguments["key_header"] = str(token), "authorization"
        super().__init__(
            str(model or deployment), base_url=with_version(parts, version), api_key=api_key, **{"needs_key": True, **arguments}
        )

    def body(self, prompt: Prompt, options: Mapping[str, Any]) -> dict[str, Any]:
        named = {} if self.is_dated else {"model": self.deployment}  # else the address names it
        return {**named, "messages": as_messages(prompt), **options}

    def read(self, raw: dict[str, Any]) -> RemoteCompletion:
        completion = super().read(raw)
        for index, choice in enumerate(raw["choices"]):
            if completion.finish_reasons[index] == "content_filter" and (categories := filtered(choice.get("content_filter_results"))):
                completion.refusals[index] = completion.refusals[index] or f"filtered: {categories}"
        return completion

    def read_refusal(self, reply: Reply, raw: Any) -> RemoteCompletion | None:
        completion = super().read_refusal(reply, raw)
        if completion is not None and isinstance(inner := raw["error"].get("innererror"), Mapping):
            categories = filtered(inner.get("content_filter_result") or inner.get("content_filter_results"))
            completion.refusals = [f"{said} ({categories})" if categories else said for said in completion.refusals]
        return completion


def endpoint_parts(base_url: str | None, azure_endpoint: str | None) -> SplitResult:
    """
    The address that is given, in its parts.

    Raises:
        BadArguments: If there is none, or it is no URL.
    """
    told = str(base_url or azure_endpoint or os.environ.get(ENDPOINT_VARIABLE, "")).strip()
    if not told:
        raise BadArguments(
            "nothing says where the deployment is found.",
            do=f"azure_endpoint=https://RESOURCE.openai.azure.com, or {ENDPOINT_VARIABLE}=...",
        )
    return split_url(told, "base_url" if base_url else "azure_endpoint" if azure_endpoint else ENDPOINT_VARIABLE)


def is_v1(parts: SplitResult) -> bool:
    """Whether an address asks for the form without versions."""
    return parts.path.rstrip("/").removesuffix("/chat/completions").endswith("/openai/v1")


def version_of_environment() -> str:
    """The API version in the variable for it; "" without one."""
    return os.environ.get(VERSION_VARIABLE, "").strip()


def split_url(address: str, name: str) -> SplitResult:
    """
    A URL in its parts.

    Raises:
        BadArguments: If it is none; `name` says whose it is.
    """
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        good = False
    if not good:
        raise BadArguments(f"{name} is no http or https URL: {address.rpartition('@')[2]!r}.", do="https://RESOURCE.openai.azure.com")
    return parts


def with_version(parts: SplitResult, version: str) -> str:
    """A URL with an API version in its query, in place of the one that is there; "v1" is said by the path alone."""
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True)]
    if version:
        query = [(name, value) for name, value in query if name != "api-version"]
    if version and version.lower() != "v1":
        query.append(("api-version", version))
    return urlunsplit(parts._replace(query=urlencode(query)))


def filtered(results: Any) -> str:
    """The categories that a filter's report holds for filtered, each with its severity where it has one."""
    told = []
    for category, result in (results if isinstance(results, Mapping) else {}).items():
        if isinstance(result, Mapping) and result.get("filtered") is True:
            told.append(f"{category}: {result['severity']}" if result.get("severity") else str(category))
    return ", ".join(told)
