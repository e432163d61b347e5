# One image for every program of indoubt; docker-compose.yml says which one each container runs.
FROM python:3.11-slim-bookworm
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
ENV JAVA_HOME=/usr PATH=/indoubt/.venv/bin:$PATH
WORKDIR /indoubt
COPY requirements requirements
COPY jars.lock ./
COPY demo/__init__.py demo/prerequisites.py demo/python_packages.py demo/jars.py demo/set_up.py demo/
RUN python3 -m demo.set_up
COPY . .
RUN python -m demo.class_archives
# A user with a name and a home: Spark does not start without. A new volume takes over the owner of its directory here.
RUN groupadd --gid 10001 indoubt && useradd --uid 10001 --gid 10001 --create-home indoubt \
    && install --directory --owner=indoubt --group=indoubt /checkpoints /history
USER 10001:10001
