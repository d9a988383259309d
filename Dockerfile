# syntax=docker/dockerfile:1
# The first stage builds a static binary, which contains the time zones, its bill of
# materials, and the licences of what is in it. The base of the second has root certificates and a user
# without privileges.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make sbom licenses

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /src/stepboard /src/stepboard.cdx.json /src/THIRD_PARTY_LICENSES /
USER nonroot
EXPOSE 8080
ENTRYPOINT ["/stepboard"]
CMD ["serve"]
