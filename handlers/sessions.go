package handlers

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"stepboard/models"
	"stepboard/services/operations/audit"
	"stepboard/services/people/sessions"
)

// SessionService signs people in.
type SessionService interface {
	Enabled() bool
	Joins(ctx context.Context) (bool, error)
	About(ctx context.Context, code, network string) (sessions.About, error)
	Open(ctx context.Context, r sessions.Request) (sessions.Opened, error)
	Token(ctx context.Context, key string, admin bool) (sessions.Token, error)
	End(ctx context.Context, key string) error
	List(ctx context.Context, user models.UserID) ([]models.Session, error)
	EndOne(ctx context.Context, user models.UserID, id int64) error
	MakeCode(ctx context.Context, user models.UserID, ttl time.Duration) (sessions.Code, error)
	MakeCards(ctx context.Context, names []string, group models.GroupID, ttl time.Duration) ([]sessions.Code, error)
}

// sessionHandlers serves signing in and out.
type sessionHandlers struct {
	sessions  SessionService
	providers ProviderService
	limits    LoginLimiter
}

var getSignIn = operation{
	id:          "getSignIn",
	summary:     "How people sign in here",
	description: "What the page asks before anybody is signed in.",
}

// signIn says how people sign in.
type signIn struct {
	Codes     bool             `json:"codes" doc:"Whether people sign in by codes"`
	Join      string           `json:"join" enum:"invited,nobody" doc:"Whether invitations make new users"`
	Providers []signInProvider `json:"providers" nullable:"false" doc:"Where else people sign in"`
}

type signInProvider struct {
	Name  string `json:"name" doc:"The name in the settings" example:"company"`
	Title string `json:"title" doc:"The name for people" example:"Example Ltd"`
	Path  string `json:"path" doc:"Where the browser goes, with return_to behind it" example:"/v1/sign-in/company"`
}

func (h *sessionHandlers) how(ctx context.Context, _ *struct{}) (*output[signIn], error) {
	how := signIn{Codes: h.sessions.Enabled(), Join: "nobody", Providers: []signInProvider{}}
	for _, p := range h.providers.Providers() {
		how.Providers = append(how.Providers, signInProvider{p.Name, p.Title, providerRoute + "/" + p.Name})
	}
	joins, err := h.sessions.Joins(ctx)
	if joins {
		how.Join = "invited"
	}
	return outputOf(how, err)
}

var describeCode = operation{
	id:      "describeCode",
	summary: "What a code is for",
	description: "A code for one use or an invitation; small letters, spaces and hyphens don't matter. It changes nothing. " +
		"After 100 wrong codes within an hour a network is 429.",
	errors: []models.Code{models.CodeNotFound, models.CodeUnsupportedMedia},
}

type codeInput struct {
	Body codeText
}

type codeText struct {
	Code string `json:"code" minLength:"1" maxLength:"64" doc:"The code" example:"K7QF2-MXA7R"`
}

// codeAbout says what a code is for.
type codeAbout struct {
	Kind     sessions.CodeKind `json:"kind" enum:"first,friend,group,sign_in" doc:"What it is"`
	New      bool              `json:"new" doc:"Whether it makes a new user, who needs a nickname"`
	Nickname *string           `json:"nickname" nullable:"true" doc:"Whom it signs in, or who invites as a friend; null otherwise" example:"Mei"`
	Group    *string           `json:"group" nullable:"true" doc:"The name of the group that it is for; null otherwise" example:"Family"`
}

func (h *sessionHandlers) about(ctx context.Context, in *codeInput) (*output[codeAbout], error) {
	if err := h.limits.TakeLogin(ctx, callerFrom(ctx).address); err != nil {
		return nil, err
	}
	about, err := h.sessions.About(ctx, in.Body.Code, callerFrom(ctx).address)
	return outputOf(codeAbout{about.Kind, about.New, unlessZero(about.Nickname), unlessZero(about.Group)}, err)
}

var openSession = operation{
	id:      "openSession",
	summary: "Sign in",
	description: "Opens a session on this device by a code, and sets its cookie; a session that the device had before ends. " +
		"An invitation makes a new user where the setting sign_in.join permits that. The call takes a body of JSON from the service's own page alone.",
	status: http.StatusCreated,
	errors: []models.Code{
		models.CodeNotFound, models.CodeJoiningClosed, models.CodeNicknameTaken, models.CodeGroupFull, models.CodeGroupLimit, models.CodeFriendLimit,
		models.CodeUnsupportedMedia,
	},
}

type openSessionInput struct {
	Body newSession
}

type newSession struct {
	Code     string `json:"code" minLength:"1" maxLength:"64" doc:"The code" example:"K7QF2-MXA7R"`
	Nickname string `json:"nickname,omitempty" maxLength:"1024" doc:"The name of somebody new" example:"Mei"`
	TimeZone string `json:"time_zone,omitempty" maxLength:"64" doc:"Where the device is, an IANA name: the default of the upload addresses that it makes" example:"Europe/Berlin"`
	Device   string `json:"device,omitempty" maxLength:"400" doc:"A name for the device" example:"Mei's phone"`
	Anyway   bool   `json:"anyway,omitempty" doc:"Whether to go on though a member of the group has the nickname"`
}

// openedSession is a session that was opened, with its first token.
type openedSession struct {
	Session  sessionShown     `json:"session" doc:"The session"`
	UserID   models.UserID    `json:"user_id" doc:"The user" example:"u_k7qf2mxa7rk7qf2m"`
	Nickname string           `json:"nickname" doc:"The user's name"`
	Operator bool             `json:"operator" doc:"Whether the user may ask for tokens of scope admin"`
	Created  bool             `json:"created" doc:"Whether the user is new"`
	Token    string           `json:"token" doc:"A token for Authorization: Bearer"`
	Expires  models.Timestamp `json:"expires_at" format:"date-time" doc:"When the token ends"`
}

// sessionShown is a session without its key.
type sessionShown struct {
	ID        string           `json:"id" doc:"The session's id in other calls" example:"7"`
	Device    string           `json:"device" doc:"The device's name, which may be empty"`
	CreatedAt models.Timestamp `json:"created_at" format:"date-time" doc:"When the device signed in"`
}

func sessionShownOf(s models.Session) sessionShown {
	return sessionShown{strconv.FormatInt(s.ID, 10), s.Device, models.TimestampOf(s.CreatedAt)}
}

func (h *sessionHandlers) open(ctx context.Context, in *openSessionInput) (*output[openedSession], error) {
	if zone := in.Body.TimeZone; zone != "" {
		if err := models.CheckZone("body.time_zone", zone); err != nil {
			return nil, err
		}
	}
	caller := callerFrom(ctx)
	if err := h.limits.TakeLogin(ctx, caller.address); err != nil {
		return nil, err
	}
	opened, err := h.sessions.Open(ctx, sessions.Request{
		Code: in.Body.Code, Nickname: in.Body.Nickname, Anyway: in.Body.Anyway, Device: in.Body.Device,
		TimeZone: in.Body.TimeZone, Address: caller.address, Before: caller.session.key(),
	})
	if err != nil {
		return nil, err
	}
	caller.session.keep(opened.Key)
	return &output[openedSession]{openedSession{
		sessionShownOf(opened.Session), opened.Token.User, opened.Nickname, opened.Operator, opened.Created, opened.Text, models.TimestampOf(opened.Expires),
	}}, nil
}

var getSessionToken = operation{
	id:      "getSessionToken",
	summary: "Get a token of this device's session",
	description: "Exchanges the cookie of a session for an access token of a quarter of an hour, or less where auth.max_token_lifetime is. " +
		"An operator's session may ask for one of scope admin. The call takes a body of JSON, `{}` at least, from the service's own page alone.",
	errors: []models.Code{models.CodeSessionEnded, models.CodeUnsupportedMedia},
}

type sessionTokenInput struct {
	Body tokenScope
}

type tokenScope struct {
	Scope string `json:"scope,omitempty" enum:"admin" doc:"What the token is for; left out for the user's own calls"`
}

// sessionToken is an access token.
type sessionToken struct {
	Token    string           `json:"token" doc:"A token for Authorization: Bearer"`
	Expires  models.Timestamp `json:"expires_at" format:"date-time" doc:"When it ends"`
	UserID   models.UserID    `json:"user_id" doc:"The user"`
	Operator bool             `json:"operator" doc:"Whether the user may ask for tokens of scope admin"`
}

func (h *sessionHandlers) token(ctx context.Context, in *sessionTokenInput) (*output[sessionToken], error) {
	session := callerFrom(ctx).session
	if err := h.limits.TakeLogin(ctx, callerFrom(ctx).address); err != nil {
		return nil, err
	}
	key := session.key()
	token, err := h.sessions.Token(ctx, key, in.Body.Scope == "admin")
	switch {
	case err == nil:
		session.keep(key)
	case models.CodeOf(err) == models.CodeSessionEnded && key != "":
		session.forget()
	}
	return outputOf(sessionToken{token.Text, models.TimestampOf(token.Expires), token.User, token.Operator}, err)
}

var endSession = operation{
	id:          "endSession",
	summary:     "Sign out",
	description: "Ends the session of this device and removes its cookie. The call takes a body of JSON, `{}` at least, from the service's own page alone.",
	errors:      []models.Code{models.CodeUnsupportedMedia},
}

type endSessionInput struct{ Body nothing }

// nothing is an empty body.
type nothing struct{}

func (h *sessionHandlers) end(ctx context.Context, _ *endSessionInput) (*struct{}, error) {
	session := callerFrom(ctx).session
	if err := h.limits.TakeLogin(ctx, callerFrom(ctx).address); err != nil {
		return nil, err
	}
	err := h.sessions.End(ctx, session.key())
	if err == nil {
		session.forget()
	}
	return nil, err
}

var listSessions = operation{
	id:          "listSessions",
	summary:     "List the devices on which one is signed in",
	description: "The one used last first.",
}

type listSessionsInput struct{ OnBehalf }

// sessionList is the devices of a user.
type sessionList struct {
	Sessions []listedSession `json:"sessions" nullable:"false" doc:"The one used last first"`
}

type listedSession struct {
	sessionShown
	LastUsedAt models.Timestamp `json:"last_used_at" format:"date-time" doc:"When it was last used, to the minute"`
	Current    bool             `json:"current" doc:"Whether the token of this call is of this session"`
}

func (h *sessionHandlers) list(ctx context.Context, user models.UserID, _ *listSessionsInput) (*output[sessionList], error) {
	list, err := h.sessions.List(ctx, user)
	current := callerFrom(ctx).Session
	return outputOf(sessionList{answersOf(list, func(s models.Session) listedSession {
		return listedSession{sessionShownOf(s), models.TimestampOf(s.LastUsedAt), s.ID == current}
	})}, err)
}

var endSessionOf = operation{
	id:          "endSessionOf",
	summary:     "Sign a device out",
	description: "Ends a session of one's own, as of a phone that was lost. A token that the device has is valid until it ends, at most a quarter of an hour.",
	errors:      []models.Code{models.CodeNotFound},
}

type endSessionOfInput struct {
	Session int64 `path:"session" minimum:"1" doc:"The session's id" example:"7"`
	OnBehalf
}

func (h *sessionHandlers) endOne(ctx context.Context, user models.UserID, in *endSessionOfInput) (*struct{}, error) {
	return nil, h.sessions.EndOne(ctx, user, in.Session)
}

var makeSignInCode = operation{
	id:          "makeSignInCode",
	summary:     "Make a code for a further device",
	description: "A code by which the user signs in on another device, once, within a quarter of an hour. It ends the one before.",
	status:      http.StatusCreated,
	errors:      []models.Code{models.CodeUserNotFound, models.CodeNotFound},
}

type makeSignInCodeInput struct{ OnBehalf }

// signInCode is a code for one use.
type signInCode struct {
	Code    string           `json:"code" doc:"The code, shown this once" example:"K7QF2-MXA7R"`
	Expires models.Timestamp `json:"expires_at" format:"date-time" doc:"When it ends"`
}

func signInCodeOf(c sessions.Code) signInCode {
	return signInCode{c.Text, models.TimestampOf(c.Expires)}
}

func (h *sessionHandlers) makeCode(ctx context.Context, user models.UserID, _ *makeSignInCodeInput) (*output[signInCode], error) {
	if !h.sessions.Enabled() {
		return nil, sessions.ErrDisabled
	}
	code, err := h.sessions.MakeCode(ctx, user, sessions.DeviceCodeTTL)
	return outputOf(signInCodeOf(code), err)
}

var makeSignInCodeOfUser = operation{
	id:          "makeUserSignInCode",
	summary:     "Make a sign-in code of a user",
	description: "For somebody who has lost their device. It ends the one before.",
	otherStatus: http.StatusCreated,
	errors:      []models.Code{models.CodeUserNotFound, models.CodeNotFound},
}

type userSignInCodeInput struct {
	ID   models.UserID `path:"id" doc:"The user" example:"1001"`
	Body newSignInCode
	DryRun
}

type newSignInCode struct {
	TTL string `json:"ttl,omitempty" maxLength:"20" doc:"How long it is valid, at most 720h; 15m if it is left out" example:"24h"`
}

func (in *userSignInCodeInput) about(e *audit.Entry) { e.User = in.ID }

func (h *sessionHandlers) makeCodeOf(ctx context.Context, in *userSignInCodeInput) (*statusOutput[signInCode], error) {
	ttl, err := h.ttlOf(in.Body.TTL, sessions.DeviceCodeTTL)
	if err != nil || in.isDryRun() {
		return statusOutputOf(in.status(http.StatusCreated), signInCode{}, err)
	}
	code, err := h.sessions.MakeCode(ctx, in.ID, ttl)
	return statusOutputOf(http.StatusCreated, signInCodeOf(code), err)
}

// ttlOf returns a duration of a body, or another one for an empty text; an error where nobody can sign in.
func (h *sessionHandlers) ttlOf(text string, otherwise time.Duration) (time.Duration, error) {
	if !h.sessions.Enabled() {
		return 0, sessions.ErrDisabled
	}
	if text == "" {
		return otherwise, nil
	}
	ttl, err := time.ParseDuration(text)
	if err != nil {
		return 0, models.Invalid("body.ttl", "is a duration such as 24h")
	}
	return ttl, nil
}

var makeCards = operation{
	id:      "makeCards",
	summary: "Make people with sign-in codes",
	description: "Makes new users, each with a code to print on a card, which also lets the user join a group. " +
		"The setting sign_in.new_per_day does not count them.",
	otherStatus: http.StatusCreated,
	errors:      []models.Code{models.CodeNotFound},
}

type makeCardsInput struct {
	Body newCards
	DryRun
}

type newCards struct {
	People []newCard      `json:"people" minItems:"1" maxItems:"500" nullable:"false" doc:"Who they are"`
	Group  models.GroupID `json:"group,omitempty" maxLength:"64" doc:"The id of a group that they join"`
	TTL    string         `json:"ttl,omitempty" maxLength:"20" doc:"How long the codes are valid; 720h, the longest, if it is left out" example:"720h"`
}

type newCard struct {
	Nickname string `json:"nickname" maxLength:"1024" doc:"The name" example:"Ann"`
}

func (in *makeCardsInput) about(e *audit.Entry) { e.Target = string(in.Body.Group) }

// cardList is codes of new people.
type cardList struct {
	Codes []card `json:"codes" nullable:"false" doc:"In the order of the names"`
}

type card struct {
	UserID   models.UserID `json:"user_id" doc:"The user"`
	Nickname string        `json:"nickname" doc:"The name"`
	signInCode
}

func (h *sessionHandlers) makeCards(ctx context.Context, in *makeCardsInput) (*statusOutput[cardList], error) {
	ttl, err := h.ttlOf(in.Body.TTL, sessions.CardTTL)
	if err != nil || in.isDryRun() {
		return statusOutputOf(in.status(http.StatusCreated), cardList{[]card{}}, err)
	}
	names := make([]string, len(in.Body.People))
	for i, p := range in.Body.People {
		names[i] = p.Nickname
	}
	made, err := h.sessions.MakeCards(ctx, names, in.Body.Group, ttl)
	return statusOutputOf(http.StatusCreated, cardList{answersOf(made, func(c sessions.Code) card {
		return card{c.User, c.Nickname, signInCodeOf(c)}
	})}, err)
}
