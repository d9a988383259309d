# syntax=docker/dockerfile:1
# Two stages: the second holds the static binary, time zones are inside it, and
# the base brings certificates and a user without rights.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /stepboard .

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /stepboard /stepboard
USER nonroot
EXPOSE 8080
ENTRYPOINT ["/stepboard"]
CMD ["serve"]
