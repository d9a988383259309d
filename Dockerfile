# syntax=docker/dockerfile:1
# The first stage builds a static binary, which contains the time zones, and its
# bill of materials. The base of the second has root certificates and a user
# without privileges.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make sbom

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /src/stepboard /src/stepboard.cdx.json /
USER nonroot
EXPOSE 8080
ENTRYPOINT ["/stepboard"]
CMD ["serve"]
