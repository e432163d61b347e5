# The watcher: collector, pages and command line, by Python alone. In the checkout:
#   docker build -t indoubt .
#   docker run -p 8651:8651 -e INDOUBT_BOOTSTRAP_SERVERS=kafka-1:9092 -v indoubt:/var/lib/indoubt indoubt
# Everybody who reaches the port may look. Its root file system may be read-only: --read-only --tmpfs /tmp. Other words take the
# place of CMD: indoubt watch --host 0.0.0.0 --allowed-host NAME, for browsers that call it NAME.
FROM python:3.11-slim-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends binutils \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY requirements requirements
RUN python3 -m venv tools \
    && tools/bin/pip install --quiet --no-cache-dir --only-binary :all: --require-hashes -r requirements/uv.lock \
    && tools/bin/uv venv --quiet --python python3 /opt/indoubt \
    && tools/bin/uv pip install --quiet --no-cache --python /opt/indoubt --require-hashes -r requirements/collector.lock
COPY . .
RUN tools/bin/uv build --quiet --no-cache --wheel --require-hashes --build-constraints requirements/development.lock \
    && tools/bin/uv pip install --quiet --no-cache --no-deps --python /opt/indoubt dist/*.whl \
    && /opt/indoubt/bin/python -P deploy/images/slim.py

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="indoubt" \
      org.opencontainers.image.description="Shows every in-doubt transaction of a Kafka cluster" \
      org.opencontainers.image.licenses="Apache-2.0"
# Its home keeps history and tokens. A new volume takes over the owner of its directory here.
RUN groupadd --gid 10001 indoubt \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/indoubt --shell /usr/sbin/nologin indoubt \
    && install --directory --owner=indoubt --group=indoubt --mode=0700 /var/lib/indoubt
COPY --from=build /opt/indoubt /opt/indoubt
ENV PATH=/opt/indoubt/bin:$PATH HOME=/var/lib/indoubt PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /var/lib/indoubt
VOLUME /var/lib/indoubt
EXPOSE 8651
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=10s --retries=3 --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8651/_stcore/health', timeout=5)"]
ENTRYPOINT ["indoubt"]
CMD ["watch", "--host", "0.0.0.0"]
