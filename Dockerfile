# The image of `allhands scheduler` and `allhands controllers`: Python, the locked packages, and us. Nothing that builds
# or downloads is in it, and it runs as nobody, on a root file system that is read only.
#   docker build -t allhands:0.1.0 .
ARG PYTHON=python:3.11.14-slim-trixie

FROM ${PYTHON} AS build
WORKDIR /build
COPY image/build.lock image/runtime.lock ./
# Every file is checked against its hash in the lock; nothing is compiled.
RUN python -m venv /build/tools \
 && /build/tools/bin/pip install --no-cache-dir --require-hashes --only-binary=:all: -r build.lock \
 && python -m venv /opt/allhands \
 && /opt/allhands/bin/pip install --no-cache-dir --require-hashes --only-binary=:all: -r runtime.lock
COPY pyproject.toml README.md LICENSE ./
COPY examples/allreduce examples/allreduce
COPY src src
RUN /build/tools/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /build/dist . \
 && /opt/allhands/bin/pip install --no-cache-dir --no-deps --no-index /build/dist/*.whl \
 && /opt/allhands/bin/pip uninstall --yes setuptools pip \
 && python -m compileall -q /opt/allhands/lib

FROM ${PYTHON}
LABEL org.opencontainers.image.title="allhands" \
      org.opencontainers.image.description="A batch system for Kubernetes. All hands or none." \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/allhands /opt/allhands
ENV PATH=/opt/allhands/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /
EXPOSE 8080
ENTRYPOINT ["allhands"]
CMD ["--help"]
