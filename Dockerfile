# Not yet built: written without a container engine. docker build -t packwise .
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE CHANGELOG.md ./
COPY src src
RUN python -m venv /opt/packwise \
    && /opt/packwise/bin/pip install --no-cache-dir -c constraints.txt ".[models,pdf,sign,claude,postgres,qdrant,serve,mcp,telemetry]"

FROM python:3.11-slim
RUN useradd --create-home --uid 10001 packwise
COPY --from=build /opt/packwise /opt/packwise
ENV PATH=/opt/packwise/bin:$PATH \
    PACKWISE_HOME=/data/home \
    PACKWISE_CACHE=/data/cache
RUN install -d -o packwise /data
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=3)"]
ENTRYPOINT ["packwise"]
CMD ["--help"]
