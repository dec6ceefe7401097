# A server for predictions: see docs/serving.md.
#   docker build -t torchcaps-serve .
#   docker run -p 8000:8000 -e TORCHCAPS_SERVE_TOKEN=secret -v "$PWD/runs/mine:/model:ro" torchcaps-serve /model

# The kernels need a compiler, which the final image does not contain.
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /torchcaps
COPY pyproject.toml setup.py README.md LICENSE ./
COPY recipes recipes
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
# PyTorch for the CPU, which is a tenth of the size of the one for CUDA.
RUN pip install --no-cache-dir torch --index-url https://download.pytorch.org/whl/cpu
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --find-links /wheels "torchcaps[serve]" && \
    useradd --create-home torchcaps
USER torchcaps
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["torchcaps", "serve", "--host", "0.0.0.0"]
CMD ["capsnet_small-mnist"]
