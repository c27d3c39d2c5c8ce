# The daemon without agent programs: agents use a key (provider `api`). For claude, codex or opencode build on top of it;
# docs/howto/run-it-all-day.md shows how, and why a published port needs TINYAGI_API_TOKEN.
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/tinyagi \
 && /opt/tinyagi/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt .

FROM python:3.12-slim
# The user's home is the volume: settings, database, workspaces and logins of agent programs live there.
RUN useradd --uid 1000 --home-dir /data --no-create-home tinyagi \
 && install -d -o tinyagi -g tinyagi -m 700 /data
COPY --from=build /opt/tinyagi /opt/tinyagi
ENV PATH=/opt/tinyagi/bin:$PATH \
    HOME=/data \
    TINYAGI_HOME=/data/.tinyagi
USER tinyagi
WORKDIR /data
VOLUME /data
EXPOSE 3777
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s CMD tinyagi status --json > /dev/null || exit 1
ENTRYPOINT ["tinyagi"]
CMD ["run"]
