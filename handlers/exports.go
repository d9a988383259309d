package handlers

import (
	"bufio"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"

	"stepboard/models"
)

const (
	// exportTimeout bounds how long a client may take for a part of an export.
	exportTimeout = 30 * time.Second
	// exportBuffer is the size of a part, in bytes.
	exportBuffer = 32 << 10
)

const exportContents = "One JSON document with everything that an erasure would remove: profile, friends, requests, choices, groups, " +
	"current and archived scores, increments, corrections, and what operators and webhooks have of the user. " +
	"It does not say who hides from the user. If the connection breaks, the document is incomplete: ask again."

var (
	exportSelf = exportOperation("exportSelf", "Get everything that is stored about oneself", "")
	exportUser = exportOperation("exportUser", "Get everything that is stored about a user", " Nor has it the addresses of the user's browsers.")
)

func exportOperation(id, summary, without string) operation {
	return operation{
		id: id, summary: summary, description: exportContents + without,
		errors: []models.Code{models.CodeUserNotFound}, responses: exportResponses, report: always, export: true,
	}
}

func exportResponses() map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: "The document",
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
			Type: huma.TypeObject, AdditionalProperties: true,
			Description: "user_id, exported_at, and a list for each kind of data",
		}}},
	}}
}

func (h *erasureHandlers) exportSelf(ctx context.Context, user models.UserID, _ *OnBehalf) (*huma.StreamResponse, error) {
	return h.export(ctx, user, true)
}

func (h *erasureHandlers) exportUser(ctx context.Context, in *UserPath) (*huma.StreamResponse, error) {
	return h.export(ctx, in.ID, false)
}

// export streams the document, with the user's secrets if it is the user's own.
func (h *erasureHandlers) export(ctx context.Context, user models.UserID, own bool) (*huma.StreamResponse, error) {
	write, err := h.erasures.Export(ctx, user, own)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		c := humagin.Unwrap(hctx)
		header := c.Writer.Header()
		header.Set("Content-Type", "application/json")
		header.Set("Content-Disposition", `attachment; filename="stepboard-export.json"`)
		if c.Request.Method == http.MethodHead {
			return // reading everything would be wasted on a body that is not sent
		}
		out := bufio.NewWriterSize(&exportWriter{c.Writer, http.NewResponseController(c.Writer)}, exportBuffer)
		err := write(ctx, out)
		if err == nil {
			err = out.Flush()
		}
		switch {
		case err == nil:
		case c.Writer.Written():
			setError(c, err)
			panic(http.ErrAbortHandler) // so that what was cut off looks cut off
		default:
			header.Del("Content-Disposition")
			writeProblem(c, err)
		}
	}}, nil
}

// exportWriter gives the client exportTimeout for each write.
type exportWriter struct {
	gin.ResponseWriter

	control *http.ResponseController
}

// Write is part of io.Writer.
func (w *exportWriter) Write(data []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(exportTimeout)) // it fails only if the connection has no deadlines
	return w.ResponseWriter.Write(data)
}
