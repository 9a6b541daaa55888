# syntax=docker/dockerfile:1
# The three programs as static binaries on an empty base, run by a user of
# their own. docker-compose.yml shows how each is started.

FROM golang:1.26 AS build
ARG VERSION=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" \
    -o /out/ ./broker ./dispatcher ./edge-agent \
 && mkdir /empty

FROM scratch
COPY --from=build /out/ /
# The system's certificates, for mqtts without a ca_file.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
# A volume takes its owner from the folder that it covers.
COPY --from=build --chown=10001:10001 /empty /var/lib/muster
COPY --from=build --chown=10001:10001 /empty /var/lib/muster-reports
COPY --from=build --chown=10001:10001 /empty /var/lib/muster-people
COPY --from=build --chown=10001:10001 /empty /var/lib/muster-broker
COPY --from=build --chown=10001:10001 /empty /var/lib/muster-token
USER 10001:10001
EXPOSE 1883 8443 8883
CMD ["/dispatcher", "serve"]
