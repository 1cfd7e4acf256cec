# Postroom in a container: not root, nothing written but /data.
#
#   docker build --tag postroom .
#   docker run --read-only --tmpfs /tmp --volume postroom:/data --publish 127.0.0.1:8025:8025 postroom
#
# A version that is none of git's tags is given by hand: --build-arg VERSION=1.2.3
# The Python with which the tests are run.
FROM python:3.11-slim AS build
ARG VERSION=""
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY docs/postroom.1 docs/
COPY storage storage
COPY actors actors
COPY web web
COPY postroom postroom
RUN python -m venv /opt/postroom \
 && SETUPTOOLS_SCM_PRETEND_VERSION="$VERSION" /opt/postroom/bin/pip install --no-cache-dir --disable-pip-version-check . \
 && /opt/postroom/bin/pip uninstall --yes pip

FROM python:3.11-slim
RUN useradd --system --uid 10025 --user-group --home-dir /data --shell /usr/sbin/nologin postroom \
 && install --directory --owner postroom --group postroom --mode 0700 /data
COPY --from=build /opt/postroom /opt/postroom
ENV PATH=/opt/postroom/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    POSTROOM_BIND=0.0.0.0:8025 \
    POSTROOM_DATA_DIR=/data \
    POSTROOM_LOG_FORMAT=json
USER 10025:10025
VOLUME /data
EXPOSE 8025
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["postroom", "health"]
ENTRYPOINT ["postroom"]
CMD ["serve"]
