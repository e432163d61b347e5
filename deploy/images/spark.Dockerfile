# The pipeline and the sink: Spark, Java, and the jars of its Kafka source, so that a driver fetches nothing. In the checkout:
#   docker build -f deploy/images/spark.Dockerfile -t indoubt-spark .
#   docker run -v checkpoints:/var/lib/indoubt indoubt-spark run --spark-jars /opt/indoubt/jars --checkpoint ip-count …
FROM python:3.11-slim-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY requirements requirements
# PySpark alone is built here; to compress what is unpacked at once takes 20 s.
RUN python3 -m venv tools \
    && tools/bin/pip install --quiet --no-cache-dir --only-binary :all: --require-hashes -r requirements/uv.lock \
    && tools/bin/uv venv --quiet --python python3 /opt/indoubt \
    && tools/bin/uv pip install --quiet --no-cache --python /opt/indoubt -C=--build-option=--compression=stored \
        --require-hashes -r requirements/all.lock
COPY . .
RUN tools/bin/uv build --quiet --no-cache --wheel --require-hashes --build-constraints requirements/development.lock \
    && tools/bin/uv pip install --quiet --no-cache --no-deps --python /opt/indoubt dist/*.whl \
    && ln -s /opt/indoubt .venv \
    && python3 -c "from demo import jars, prerequisites as on_machine; jars.resolve_jars(on_machine.find_java())" \
    && cp -r .run/jars/spark /opt/indoubt/jars

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="indoubt-spark" \
      org.opencontainers.image.description="Spark with a sink that writes exactly once" \
      org.opencontainers.image.licenses="Apache-2.0"
# A user with a name and a home: Spark does not start without. A new volume takes over the owner of its directory here.
# hadolint ignore=DL3008
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 indoubt \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/indoubt --shell /usr/sbin/nologin indoubt \
    && install --directory --owner=indoubt --group=indoubt --mode=0700 /var/lib/indoubt
COPY --from=build /opt/indoubt /opt/indoubt
ENV PATH=/opt/indoubt/bin:$PATH HOME=/var/lib/indoubt PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /var/lib/indoubt
VOLUME /var/lib/indoubt
USER 10001:10001
# Whether a pipeline is well, its --status-file says: where that is, who starts it knows.
HEALTHCHECK NONE
ENTRYPOINT ["indoubt", "pipeline"]
CMD ["--help"]
