# syntax=docker/dockerfile:1
# The three programs as static binaries on an empty base, as a user of their
# own. Build one with --target broker, dispatcher or edge-agent.

FROM golang:1.26 AS build
ARG VERSION=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" \
    -o /out/ ./broker ./dispatcher ./edge-agent \
 && mkdir -p /out/empty

FROM scratch AS broker
COPY --from=build /out/broker /broker
USER 10001:10001
EXPOSE 1883 8883
ENTRYPOINT ["/broker"]

FROM scratch AS dispatcher
COPY --from=build /out/dispatcher /dispatcher
# Volumes take the owner of the folder they cover.
COPY --from=build --chown=10001:10001 /out/empty /var/lib/muster
COPY --from=build --chown=10001:10001 /out/empty /var/lib/muster-reports
USER 10001:10001
EXPOSE 1883 8883
ENTRYPOINT ["/dispatcher"]

FROM scratch AS edge-agent
COPY --from=build /out/edge-agent /edge-agent
COPY --from=build --chown=10001:10001 /out/empty /var/lib/muster-agent
USER 10001:10001
ENTRYPOINT ["/edge-agent"]
