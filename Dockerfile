# One image for every program of indoubt; docker-compose.yml says which one each container runs.
FROM python:3.11-slim-bookworm
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
ENV JAVA_HOME=/usr PATH=/indoubt/.venv/bin:$PATH
WORKDIR /indoubt
COPY requirements.txt constraints.txt ivy.xml ./
COPY demo/__init__.py demo/prerequisites.py demo/
RUN python3 demo/prerequisites.py --no-class-archives
COPY . .
RUN python -m demo.class_archives
