package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"

	"stepboard/models"
	"stepboard/services/platform/auth"
	"stepboard/services/rankings/stream"
)

// StreamService polls rankings of friends and groups for subscribers.
type StreamService interface {
	Subscribe(ctx context.Context, q stream.Query, address string) (*stream.Subscriber, error)
	Limits() stream.Limits
}

// streamHandlers serves rankings as server-sent events.
type streamHandlers struct {
	streams StreamService
}

// eventTimeout bounds the writing of one event. A client that takes longer is
// regarded as gone.
const eventTimeout = 10 * time.Second

var streamFriends = operation{
	id:      "streamFriendRanking",
	summary: "Watch oneself among one's friends",
	description: "The first page of the user and the user's friends as server-sent events: one event at once, and one whenever the page has changed. " +
		"Each `ranking` event's data is what GET /v1/boards/{board}/friends answers; `?limit=` is the size of the page, and `?include=likes` adds the likes. " +
		"If the user wants to be told (PUT /v1/me/push), a `passed` event says who has passed the user: its data is that of the webhook `rank.passed`. " +
		"A comment every 15 seconds keeps the connection open. An `error` event with a problem ends the stream; its code is `unauthenticated` " +
		"when the token has expired: get a new one and connect again. It also ends when the service stops, " +
		"and after five minutes, so that the token is checked again; connect again then. A user may have five streams at once, and an address `limits.streams_per_address`.",
	errors:    []models.Code{models.CodeBoardNotFound, models.CodeBoardKind, models.CodeOffsetRequired},
	responses: streamResponses,
}

var streamGroup = operation{
	id:      "streamGroupRanking",
	summary: "Watch a group's ranking",
	description: "What GET /v1/boards/{board}/groups/{group} answers, as the events of GET /v1/boards/{board}/friends/stream. " +
		"The stream of a user who has left the group ends with an `error` event of code `not_found`.",
	errors:    []models.Code{models.CodeBoardNotFound, models.CodeBoardKind, models.CodeNotFound, models.CodeOffsetRequired},
	responses: streamResponses,
}

func streamResponses() map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: "A stream of `ranking` events whose data is a Ranking, of `passed` events, of comments, and of at most one `error` event, the last",
		Content: map[string]*huma.MediaType{"text/event-stream": {
			Schema:  &huma.Schema{Type: huma.TypeString},
			Example: "event: ranking\ndata: {\"board\":\"steps\",\"date\":\"2026-11-20\",…}\n\n: still here\n\n",
		}},
	}}
}

// StreamInput picks a board and the size of the page of each event.
type StreamInput struct {
	Board   string `path:"board" doc:"The board's name" example:"steps"`
	Limit   int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Most entries of an event"`
	Include string `query:"include" enum:"likes" doc:"likes: each entry has likes and liked. Daily boards only"`
	LocalTime
	OnBehalf
}

type groupStreamInput struct {
	GroupPath
	StreamInput
}

func (h *streamHandlers) friends(ctx context.Context, viewer models.UserID, in *StreamInput) (*huma.StreamResponse, error) {
	return h.stream(ctx, viewer, in, "")
}

func (h *streamHandlers) group(ctx context.Context, viewer models.UserID, in *groupStreamInput) (*huma.StreamResponse, error) {
	return h.stream(ctx, viewer, &in.StreamInput, in.Group)
}

// stream streams a group, or the viewer's friends if the group is empty.
func (h *streamHandlers) stream(
	ctx context.Context, viewer models.UserID, in *StreamInput, group models.GroupID,
) (*huma.StreamResponse, error) {
	offset, err := in.offset()
	if err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	q := stream.Query{Board: in.Board, Viewer: viewer, Group: group, Offset: offset, Limit: in.Limit, Likes: in.Include != ""}
	subscriber, err := h.streams.Subscribe(starting, q, callerFrom(ctx).address)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer subscriber.Stop()
		c := humagin.Unwrap(hctx)
		events := &eventWriter{c: c, control: http.NewResponseController(c.Writer)}
		events.run(subscriber, h.streams.Limits(), callerFrom(ctx).Expires)
	}}, nil
}

// eventWriter writes server-sent events.
type eventWriter struct {
	c       *gin.Context
	control *http.ResponseController
}

// run sends the subscriber's updates until the client, the subscription or the
// service ends the stream, or the token expires.
func (w *eventWriter) run(subscriber *stream.Subscriber, limits stream.Limits, tokenExpires time.Time) {
	header := w.c.Writer.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // nginx passes events on at once
	// The server's deadline for reading the request would end the connection a
	// few seconds from now, although the request was read completely.
	if err := w.control.SetReadDeadline(time.Time{}); err != nil {
		setError(w.c, err)
		return
	}
	heartbeat := time.NewTicker(limits.Heartbeat)
	defer heartbeat.Stop()
	tooLong := time.NewTimer(limits.MaxDuration)
	defer tooLong.Stop()
	expired := time.NewTimer(time.Until(tokenExpires))
	defer expired.Stop()
	ok := w.event("ranking", subscriber.First)
	for ok {
		select {
		case <-w.c.Request.Context().Done():
			return
		case <-tooLong.C:
			return
		case <-expired.C:
			w.end(auth.Unauthenticated("the token has expired; get a new one", nil))
			return
		case <-heartbeat.C:
			ok = w.send([]byte(": still here\n\n"))
		case passed := <-subscriber.Passed:
			ok = w.event("passed", passed)
		case update, open := <-subscriber.Updates:
			if !open {
				w.end(subscriber.Err())
				return
			}
			heartbeat.Reset(limits.Heartbeat)
			ok = w.event("ranking", update)
		}
	}
}

// end sends an error event if err is not nil.
func (w *eventWriter) end(err error) {
	if err == nil {
		return
	}
	setError(w.c, err)
	p := problemOf(err)
	p.RequestID = requestID(w.c)
	if text, err := json.Marshal(p, jsonOptions); err == nil {
		w.event("error", text)
	}
}

// event sends one event, whose data is one line. It returns false if the client
// is gone.
func (w *eventWriter) event(name string, data []byte) bool {
	text := make([]byte, 0, len(data)+len(name)+20)
	text = append(append(text, "event: "...), name...)
	text = append(append(text, "\ndata: "...), data...)
	return w.send(append(text, "\n\n"...))
}

func (w *eventWriter) send(text []byte) bool {
	if err := w.control.SetWriteDeadline(time.Now().Add(eventTimeout)); err != nil {
		return false
	}
	if _, err := w.c.Writer.Write(text); err != nil {
		return false
	}
	return w.control.Flush() == nil
}
