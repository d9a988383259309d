package handlers

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"stepboard/models"
)

// operation describes a call to the clients of the API. It is declared next to
// the handler that serves the call; router.go gives it a path.
type operation struct {
	// id is the name of the call in generated clients, such as getFriendRanking.
	id          string
	summary     string
	description string
	// status is the status on success; 0 means 200, or 204 if the answer has no body.
	status int
	// otherStatus is a second status on success, with the same body; 0 if none.
	otherStatus int
	// errors are the codes of errors, except those that every call may return, and those that follow
	// from its input.
	errors []models.Code
	// bodies are zero values of the bodies that the call takes, if the handler decodes
	// the body itself; otherwise nil.
	bodies []any
	// list says that the body is a list of a backend, of at most maxList bytes. Its handler
	// decodes it, and stops at the first error.
	list bool
	// anyBody says that the body is what an app on a phone sends, or nothing. Its handler decodes it.
	anyBody bool
	// responses describes the responses; nil leaves that to Huma. It returns a new map each
	// time, because Huma changes it.
	responses func() map[string]*huma.Response

	// report reports whether a request reads many days; nil if none does. A user makes at most
	// two such requests at a time. export says that it is an export, and a user makes at most one
	// of these.
	report func(huma.Context) bool
	export bool
	// redisOnly reports that what the call writes is stored in Redis alone, so that the call is
	// answered while SQL is away.
	redisOnly bool
	// audited is set by registerAudited.
	audited bool
}

// output is the answer of a call whose operation gives its status.
type output[Body any] struct {
	Body Body
}

// statusOutput is the answer of a call that has several statuses.
type statusOutput[Body any] struct {
	Status int
	Body   Body
}

// outputOf returns the answer of a handler: the body, or an error if there is one.
func outputOf[Body any](body Body, err error) (*output[Body], error) {
	if err != nil {
		return nil, err
	}
	return &output[Body]{body}, nil
}

// statusOutputOf returns the answer of a handler with its status, or an error if there is one.
func statusOutputOf[Body any](status int, body Body, err error) (*statusOutput[Body], error) {
	if err != nil {
		return nil, err
	}
	return &statusOutput[Body]{status, body}, nil
}

// report says which requests of an operation read many days.
type report struct {
	is     func(huma.Context) bool
	export bool
}

// always is the report of an operation whose requests all read many days.
func always(huma.Context) bool { return true }

// ofSpan is the report of an operation that takes a span of days.
func ofSpan(c huma.Context) bool { return c.Query("from") != "" }

// inputErrors returns the error codes of every call whose input has a cursor or a body.
func inputErrors(input reflect.Type) (codes []models.Code) {
	if _, ok := input.FieldByName("Cursor"); ok {
		codes = append(codes, models.CodeInvalidCursor)
	}
	_, body := input.FieldByName("Body")
	_, raw := input.FieldByName("RawBody")
	if body || raw {
		codes = append(codes, models.CodeInvalidRequest, models.CodeRequestTimeout, models.CodeBodyTooLarge)
	}
	return codes
}

// commonErrors returns the error codes of every call.
func commonErrors() []models.Code {
	return []models.Code{
		models.CodeUnauthenticated, models.CodeForbidden, models.CodeValidationFailed, models.CodeRateLimited,
		models.CodeInternal, models.CodeUnavailable,
	}
}

// register adds a call to the API: its route, such as "GET /v1/boards", the
// audience that may make it, the handler that serves it, and its description.
func register[I, O any](api huma.API, route string, by *audience, handler func(context.Context, *I) (*O, error), described operation) {
	method, path, _ := strings.Cut(route, " ")
	if by == byAdmin && method != http.MethodGet && !described.audited {
		panic(route + ": what operators modify is registered by registerAudited")
	}
	limit := int64(maxBody)
	switch {
	case described.list:
		limit = maxList
	case described.anyBody:
		limit = maxPhoneBody
	}
	if described.report != nil {
		described.description += " A user may make two of the calls about many days at a time; a further one waits for a second and is then 429 `busy`."
	}
	op := huma.Operation{
		OperationID:   described.id,
		Method:        method,
		Path:          path,
		Summary:       described.summary,
		Description:   described.description + "\n\n" + by.described,
		Tags:          []string{tagOf(path, by)},
		Security:      []map[string][]string{{"bearer": {}}},
		Metadata:      map[string]any{audienceKey: by, writesSQLKey: method != http.MethodGet && !described.redisOnly},
		MaxBodyBytes:  limit + 1, // Huma refuses a body that reaches its limit
		DefaultStatus: described.status,
		Errors:        []int{http.StatusInternalServerError}, // describeErrors lists all
		Responses:     make(map[string]*huma.Response),
	}
	if by == byNobody || by == byCookie {
		op.Security = []map[string][]string{}
	}
	if described.report != nil {
		op.Metadata[reportKey] = report{described.report, described.export}
		described.errors = append(slices.Clip(described.errors), models.CodeBusy)
	}
	if described.responses != nil {
		op.Responses = described.responses()
	}
	if described.bodies != nil {
		op.RequestBody = bodyOf(api, described.bodies)
		op.SkipValidateBody = true
	}
	if described.anyBody {
		op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{}}}}
		op.SkipValidateBody = true
	}
	huma.Register(api, op, handler) // fills in op.Responses
	if op.SkipValidateBody {
		delete(op.RequestBody.Content, "application/octet-stream") // Huma adds it for a RawBody
		op.RequestBody.Required = !described.anyBody               // and requires it
	}
	if described.otherStatus != 0 {
		op.Responses[strconv.Itoa(described.otherStatus)] = &huma.Response{
			Description: http.StatusText(described.otherStatus), Content: op.Responses["200"].Content,
		}
	}
	common := commonErrors()
	if by == byNobody || by == byCookie {
		common = slices.DeleteFunc(common, func(c models.Code) bool { return c == models.CodeUnauthenticated })
	}
	codes := slices.Concat(common, inputErrors(reflect.TypeFor[I]()), described.errors)
	describeErrors(api.OpenAPI().Components, op.Responses, codes)
}

// registerForUser adds a call that acts for a user: the one of the token, or the one whom a
// service names.
func registerForUser[I any, In interface {
	*I
	user(ctx context.Context) (models.UserID, error)
}, O any](
	api huma.API, route string, handler func(ctx context.Context, user models.UserID, in *I) (*O, error), described operation,
) {
	register(api, route, byUser, func(ctx context.Context, in *I) (*O, error) {
		user, err := In(in).user(ctx)
		if err != nil {
			return nil, err
		}
		return handler(ctx, user, in)
	}, described)
}

// registerForQuery adds a call that acts for a user and reads what its input asks for.
func registerForQuery[I any, In interface {
	*I
	user(ctx context.Context) (models.UserID, error)
	query(viewer models.UserID) (Q, error)
}, Q, O any](
	api huma.API, route string, handler func(ctx context.Context, q Q, in *I) (*O, error), described operation,
) {
	registerForUser[I, In](api, route, func(ctx context.Context, viewer models.UserID, in *I) (*O, error) {
		q, err := In(in).query(viewer)
		if err != nil {
			return nil, err
		}
		return handler(ctx, q, in)
	}, described)
}

// bodyLimit returns how many bytes the body of a call may have.
func bodyLimit(op *huma.Operation) int64 { return op.MaxBodyBytes - 1 }

// bodyOf describes a request body that the handler decodes itself, and that has the form of one
// of the bodies.
func bodyOf(api huma.API, bodies []any) *huma.RequestBody {
	forms := make([]*huma.Schema, len(bodies))
	for i, body := range bodies {
		t := reflect.TypeOf(body)
		forms[i] = api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
	}
	schema := forms[0]
	if len(forms) > 1 {
		schema = &huma.Schema{OneOf: forms}
	}
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// CursorSealer turns the position behind a page into a text for the client, and back. An empty text is the
// zero position.
type CursorSealer interface {
	Seal(c models.Cursor, scope ...string) string
	Open(ctx context.Context, text string, scope ...string) (models.Cursor, error)
}

// Paging picks a page of a list.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Most entries of a page"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// listRow is a row of a list that is read in pages.
type listRow interface {
	// Cursor returns the position of the row in the list.
	Cursor() models.Cursor
}

// pageOf reads the page of a list that a request picks. read returns at most limit rows behind a
// position, which is zero for the beginning, and show returns a row as the API has it. scope names the
// list and everything else that its cursors are bound to, such as its filters. next is the cursor behind
// the last row; nil if no other page follows. CodeInvalidCursor if the cursor is not one of this scope.
func pageOf[Row listRow, Answer any](
	ctx context.Context, cursors CursorSealer, p Paging, show func(Row) Answer,
	read func(after models.Cursor, limit int) ([]Row, error), scope ...string,
) (page []Answer, next *string, err error) {
	after, err := cursors.Open(ctx, p.Cursor, scope...)
	if err != nil {
		return nil, nil, err
	}
	rows, err := read(after, p.Limit+1)
	if err != nil {
		return nil, nil, err
	}
	if len(rows) > p.Limit {
		rows = rows[:p.Limit]
		next = new(cursors.Seal(rows[p.Limit-1].Cursor(), scope...))
	}
	return answersOf(rows, show), next, nil
}

// dateOf returns the day of a parameter or field whose format is date: Huma has refused all others.
func dateOf(text string) models.Date {
	day, _ := models.ParseDate(text)
	return day
}

// optionalDate is dateOf of a parameter that may be left out; nil for one that is.
func optionalDate(text string) *models.Date {
	if text == "" {
		return nil
	}
	return new(dateOf(text))
}

// LocalTime gives the offset of a user's clock.
type LocalTime struct {
	UTCOffset string `query:"utc_offset" doc:"How far the user's clock is ahead of UTC, from -12:00 to +14:00, or Z. Boards with time_zone local need it to know the user's today; others ignore it" example:"+08:00"`
}

// offset parses the offset. It returns the unknown offset if the request has none.
func (in LocalTime) offset() (models.UTCOffset, error) {
	if in.UTCOffset == "" {
		return models.UTCOffset{}, nil
	}
	offset, err := models.ParseUTCOffset(in.UTCOffset)
	if err != nil {
		return models.UTCOffset{}, models.Invalid("query.utc_offset", err.Error())
	}
	return offset, nil
}

// answersOf returns the answers of rows; an empty list for none.
func answersOf[Row, Answer any](rows []Row, show func(Row) Answer) []Answer {
	answers := make([]Answer, len(rows))
	for i, row := range rows {
		answers[i] = show(row)
	}
	return answers
}
