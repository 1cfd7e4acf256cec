"""Where code is written: hosts of repositories, trackers, alarms."""

from web.verify.credential_schemes import TokenOrSigned
from web.verify.presets.model import Preset, standard
from web.verify.samples import Base
from web.verify.template import PresetTemplate as T

DEVELOPMENT = (
    Preset(
        "github",
        T(
            header="X-Hub-Signature-256",
            prefix="sha256=",
            delivery_id="header:X-GitHub-Delivery",
            event_type="header:X-GitHub-Event",
        ),
        ("official vector",),
        Base('{"zen":"Keep it logically awesome.","repository":{"full_name":"octocat/hello-world"}}'),
    ),
    Preset(
        "gitea",
        T(
            header="X-Gitea-Signature",
            delivery_id=("header:X-Gitea-Delivery", "header:X-GitHub-Delivery"),
            event_type=("header:X-Gitea-Event", "header:X-GitHub-Event"),
        ),
        sample=Base('{"ref":"refs/heads/main","repository":{"full_name":"octocat/hello-world"}}'),
    ),
    Preset(
        "bitbucket",
        T(
            header="X-Hub-Signature",
            prefix="sha256=",
            delivery_id="header:X-Request-UUID",
            event_type="header:X-Event-Key",
        ),
        ("official vector",),
        Base('{"repository":{"full_name":"octocat/hello-world"},"push":{"changes":[]}}'),
    ),
    Preset(
        "gitlab",
        TokenOrSigned(
            header="X-Gitlab-Token",
            delivery_id=("header:Idempotency-Key", "header:webhook-id"),
            event_type="header:X-Gitlab-Event",
            template=standard("webhook", prefix_required=True, event_type="header:X-Gitlab-Event")[0],
        ),
        sample=Base('{"object_kind":"push","ref":"refs/heads/main","project":{"name":"hello-world"}}'),
    ),
    Preset(
        "linear",
        T(
            header="Linear-Signature",
            timestamp="body:webhookTimestamp",
            timestamp_unit="milliseconds",
            tolerance_seconds=60,
            delivery_id="header:Linear-Delivery",
            event_type="header:Linear-Event",
        ),
        sample=Base('{"action":"create","type":"Issue","data":{"title":"A sample"}}'),
    ),
    Preset(
        "sentry",
        T(
            header="Sentry-Hook-Signature",
            delivery_id="header:Request-ID",
            event_type="header:Sentry-Hook-Resource",
        ),
        sample=Base('{"action":"created","data":{"issue":{"title":"A sample"}}}'),
    ),
    Preset(
        "pagerduty",
        T(
            header="X-PagerDuty-Signature",
            prefix="v1=",
            separator=",",
            delivery_id="header:X-Webhook-Id",
            event_type="body:event.event_type",
        ),
        sample=Base('{"event":{"event_type":"incident.triggered","data":{"title":"A sample"}}}'),
    ),
    Preset(
        "vercel",
        T(
            header="x-vercel-signature",
            algorithm="sha1",
            delivery_id="body:id",
            event_type="body:type",
        ),
        sample=Base('{"type":"deployment.succeeded","payload":{"name":"hello-world"}}'),
    ),
    Preset(
        "trello",
        T(
            header="X-Trello-Webhook",
            algorithm="sha1",
            encoding="base64",
            signed="{body}{url}",
            delivery_id="body:action.id",
            event_type="body:action.type",
        ),
        sample=Base('{"action":{"type":"updateCard","data":{}},"model":{"name":"A sample"}}'),
    ),
    Preset(
        "asana",
        T(header="X-Hook-Signature", event_type="body:events[0].action"),
        sample=Base('{"events":[{"action":"changed","resource":{"resource_type":"task"}}]}'),
    ),
)
