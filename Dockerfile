# syntax=docker/dockerfile:1
# The first stage builds a static binary, which contains the time zones. The
# base of the second has root certificates and a user without privileges.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make build

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /src/stepboard /stepboard
USER nonroot
EXPOSE 8080
ENTRYPOINT ["/stepboard"]
CMD ["serve"]
