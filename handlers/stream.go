package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"

	"stepboard/services/stream"
)

// StreamService follows rankings among friends.
type StreamService interface {
	Subscribe(ctx context.Context, q stream.Query) (*stream.Subscriber, error)
	Limits() stream.Limits
}

// streamHandlers serves rankings as server-sent events.
type streamHandlers struct {
	streams StreamService
}

// streamWrite bounds the writing of one event: who does not read for so long
// is gone.
const streamWrite = 10 * time.Second

var streamFriends = operation{
	summary: "Watch oneself among one's friends",
	description: "The first page of the user and the user's friends as server-sent events: one event at once, and one whenever the page has changed. " +
		"Each `ranking` event's data is what GET /v1/boards/{board}/friends answers; `?limit=` is the size of the page. " +
		"A comment every 15 seconds keeps the connection open. An `error` event with a problem ends the stream. It also ends when the service stops, " +
		"and after five minutes, so that the token is checked again; connect again then. A user may have five streams at once.",
	errors: []int{http.StatusBadRequest, http.StatusNotFound, http.StatusTooManyRequests},
	responses: map[string]*huma.Response{"200": {
		Description: "A stream of `ranking` events whose data is a Ranking, of comments, and of at most one `error` event, the last",
		Content: map[string]*huma.MediaType{"text/event-stream": {
			Schema:  &huma.Schema{Type: huma.TypeString},
			Example: "event: ranking\ndata: {\"board\":\"steps\",\"date\":\"2026-11-20\",…}\n\n: still here\n\n",
		}},
	}},
}

type streamInput struct {
	Board string `path:"board" doc:"The board's name" example:"steps"`
	Limit int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Most entries of an event"`
	OnBehalf
}

func (h *streamHandlers) friends(ctx context.Context, in *streamInput) (*huma.StreamResponse, error) {
	viewer, err := in.user(ctx)
	if err != nil {
		return nil, err
	}
	beginning, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	w, err := h.streams.Subscribe(beginning, stream.Query{Board: in.Board, Viewer: viewer, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer w.Stop()
		c := humagin.Unwrap(hctx)
		s := &eventWriter{c: c, control: http.NewResponseController(c.Writer)}
		s.run(w, h.streams.Limits())
	}}, nil
}

// eventWriter writes server-sent events.
type eventWriter struct {
	c       *gin.Context
	control *http.ResponseController
}

// run sends what the watcher brings until one side ends.
func (s *eventWriter) run(w *stream.Subscriber, limits stream.Limits) {
	header := s.c.Writer.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // nginx passes events on at once
	// The server's time to read a request is over some seconds from now; that
	// it was read whole does not matter to it.
	if err := s.control.SetReadDeadline(time.Time{}); err != nil {
		setError(s.c, err)
		return
	}
	heartbeat := time.NewTicker(limits.Heartbeat)
	defer heartbeat.Stop()
	life := time.NewTimer(limits.MaxDuration)
	defer life.Stop()
	ok := s.event("ranking", w.First)
	for ok {
		select {
		case <-s.c.Request.Context().Done():
			return
		case <-life.C:
			return
		case <-heartbeat.C:
			ok = s.send([]byte(": still here\n\n"))
		case update, open := <-w.Updates:
			if !open {
				s.end(w.Err())
				return
			}
			heartbeat.Reset(limits.Heartbeat)
			ok = s.event("ranking", update)
		}
	}
}

// end says what went wrong, if anything did.
func (s *eventWriter) end(err error) {
	if err == nil {
		return
	}
	setError(s.c, err)
	p := problemOf(err)
	p.RequestID = requestID(s.c)
	if text, err := json.Marshal(p); err == nil {
		s.event("error", text)
	}
}

// event sends one event; its data is JSON, which is one line. It answers false where
// nobody reads.
func (s *eventWriter) event(name string, data []byte) bool {
	text := make([]byte, 0, len(data)+len(name)+20)
	text = append(append(text, "event: "...), name...)
	text = append(append(text, "\ndata: "...), data...)
	return s.send(append(text, "\n\n"...))
}

func (s *eventWriter) send(text []byte) bool {
	if err := s.control.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil {
		return false
	}
	if _, err := s.c.Writer.Write(text); err != nil {
		return false
	}
	return s.control.Flush() == nil
}
