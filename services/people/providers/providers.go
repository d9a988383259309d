// Package providers signs people in by OpenID Connect.
//
// The browser goes to the provider and comes back with a code, as OAuth 2.0 describes for clients with PKCE (RFC 7636).
// What it has to bring back (state, nonce and PKCE's verifier) is in an encrypted cookie of ten minutes. The code
// is exchanged for an ID token, of which signature, issuer, audience, time and nonce are checked; who it names is signed in by
// package sessions. A provider is looked up when somebody first wants to sign in, so one that is away keeps nothing from starting.
package providers

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"stepboard/internal/outbound"
	"stepboard/internal/reading"
	"stepboard/internal/sealed"
	"stepboard/models"
	"stepboard/services/people/sessions"
)

const (
	// AttemptTTL is how long somebody has to sign in at a provider.
	AttemptTTL = 10 * time.Minute
	// callTimeout bounds a call of a provider, from connecting to the end of the answer.
	callTimeout = 10 * time.Second
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 256 << 10
	// maxReturn is how long the address within the page is at most to which somebody returns, in bytes.
	maxReturn = 512
	// maxText is how much of a provider's words an error has, in bytes.
	maxText = 300
	// second begins the state of an attempt that was begun because the first one came back without its cookie.
	second = "2."
)

// Provider is an OpenID Connect provider of the settings.
type Provider struct {
	// Name is that in addresses, and Title that for people.
	Name, Title string
	// Issuer is its address, as its tokens have it.
	Issuer, ClientID, ClientSecret string
	// Scopes are asked for besides openid.
	Scopes []string
	// Session is how long somebody stays signed in.
	Session time.Duration
	// UserClaim is the claim that has the id of a user; empty if people of the provider are users of their own.
	UserClaim string
	// Allow are conditions, each of which a person must meet.
	Allow []Allow
}

// Allow is met by who has one of the values in a claim, which is a text or a list of texts.
type Allow struct {
	Claim  string
	Values []string
}

// Sessions opens a session of somebody whom a provider has named. Implemented by sessions.Service.
type Sessions interface {
	OpenElsewhere(ctx context.Context, who sessions.Elsewhere) (sessions.Opened, error)
}

// Options holds what a Service is built on.
type Options struct {
	Providers []Provider
	// PublicURL is the service's address as people see it, without a slash at its end.
	PublicURL string
	Sessions  Sessions
	// Secret is what the key of the cookie is derived from.
	Secret []byte
	// Clock is the machine's: that of providers, whatever the service's clock is set to.
	Clock models.Clock
	Log   *slog.Logger
}

// Service signs people in by OpenID Connect. Safe for concurrent use.
type Service struct {
	o         Options
	providers []*provider
	sealer    *sealed.Sealer
	ends      map[string]*atomic.Int64 // how many attempts have ended, by how
}

// provider is a Provider, with what was found at its address.
type provider struct {
	Provider

	client  *http.Client
	reading *reading.Shared
	found   atomic.Pointer[oidc.Provider]
}

// New returns a service.
func New(o Options) (*Service, error) {
	sealer, err := sealed.New(o.Secret, "signing in by OpenID Connect")
	s := &Service{o: o, sealer: sealer, ends: make(map[string]*atomic.Int64)}
	for _, how := range []Reason{signedIn, Refused, Expired, Unavailable, NotAllowed} {
		s.ends[string(how)] = new(atomic.Int64)
	}
	for _, p := range o.Providers {
		client := outbound.NewClient(outbound.Options{Timeout: callTimeout, MaxAnswer: maxAnswer})
		s.providers = append(s.providers, &provider{Provider: p, client: client, reading: reading.New(callTimeout)})
	}
	return s, err
}

// Ends returns how many attempts have ended in this process, by their Reason, or "ok".
func (s *Service) Ends() map[string]*atomic.Int64 { return s.ends }

// Providers returns those of the settings.
func (s *Service) Providers() []Provider { return s.o.Providers }

// Reason says why somebody was not signed in.
type Reason string

// The reasons.
const (
	// signedIn is none, for those who were.
	signedIn Reason = "ok"
	// Refused means that the provider has refused, or that its answer is not to be trusted.
	Refused Reason = "refused"
	// Expired means that it took too long, or that the browser has lost the cookie.
	Expired Reason = "expired"
	// Unavailable means that the provider, or this service, can't do it now.
	Unavailable Reason = "unavailable"
	// NotAllowed means that the settings don't let this person in.
	NotAllowed Reason = "not_allowed"
)

// Refusal is the error about somebody who was not signed in.
type Refusal struct {
	Reason Reason
	Err    error
}

// Error returns the cause.
func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// count counts a call that has ended somebody's attempt, and writes why to the log.
func (s *Service) count(ctx context.Context, name string, err error) {
	how, refusal := signedIn, (*Refusal)(nil)
	if errors.As(err, &refusal) {
		how = refusal.Reason
		s.o.Log.WarnContext(ctx, "somebody was not signed in by a provider", "provider", name, "reason", refusal.Reason, "error", refusal.Err)
	}
	s.ends[string(how)].Add(1)
}

// named returns a provider, or CodeNotFound.
func (s *Service) named(name string) (*provider, error) {
	i := slices.IndexFunc(s.providers, func(p *provider) bool { return p.Name == name })
	if i < 0 {
		return nil, models.Errorf(models.CodeNotFound, "there is no such provider")
	}
	return s.providers[i], nil
}

// look returns what is found at the provider's address, which is read until it was there once. Calls that arrive
// meanwhile share a reading. *Refusal.
func (p *provider) look(ctx context.Context) (*oidc.Provider, error) {
	if p.found.Load() == nil {
		_, err := p.reading.Share(ctx, func(ctx context.Context) error {
			if p.found.Load() != nil {
				return nil
			}
			found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.Issuer)
			if err == nil {
				p.found.Store(found)
			}
			return err
		})
		if err != nil {
			return nil, &Refusal{Unavailable, fmt.Errorf("look the provider up: %w", harmless(err))}
		}
	}
	return p.found.Load(), nil
}

// config returns the client of OAuth 2.0.
func (s *Service) config(p *provider, found *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: found.Endpoint(),
		RedirectURL: s.o.PublicURL + "/v1/sign-in/" + p.Name + "/callback", Scopes: append([]string{oidc.ScopeOpenID}, p.Scopes...),
	}
}

// attempt is what a browser keeps while somebody is at a provider.
type attempt struct {
	State, Nonce, Verifier string
	// Return is the address within the page to which somebody returns, and TimeZone where the browser is.
	Return, TimeZone string
	Ends             time.Time
}

// Begun is an attempt that has begun: the address of the provider, and what the browser keeps for AttemptTTL.
type Begun struct{ URL, Cookie string }

// Begin begins an attempt. returnTo is the address within the page, which begins with #; others are ignored. CodeNotFound,
// *Refusal. One call of the provider, if it was not there before.
func (s *Service) Begin(ctx context.Context, name, returnTo, zone string) (Begun, error) {
	return s.begin(ctx, name, attempt{State: rand.Text(), Return: within(returnTo), TimeZone: zone})
}

func (s *Service) begin(ctx context.Context, name string, a attempt) (Begun, error) {
	p, err := s.named(name)
	if err != nil {
		return Begun{}, err
	}
	found, err := p.look(ctx)
	if err != nil {
		s.count(ctx, name, err)
		return Begun{}, err
	}
	a.Nonce, a.Verifier, a.Ends = rand.Text(), oauth2.GenerateVerifier(), s.o.Clock().Add(AttemptTTL)
	address := s.config(p, found).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier))
	text, err := json.Marshal(a)
	return Begun{address, base64.RawURLEncoding.EncodeToString(s.sealer.Seal(text, name))}, err
}

// within returns an address within the page, or nothing for another one.
func within(address string) string {
	strange := func(c rune) bool { return c <= ' ' || c == '\\' || c >= 0x7f }
	if !strings.HasPrefix(address, "#") || len(address) > maxReturn || strings.ContainsFunc(address, strange) {
		return ""
	}
	return address
}

// open returns the attempt that a cookie keeps, if it belongs to the state that has come back.
func (s *Service) open(name, cookie, state string) (a attempt, ok bool) {
	kept, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return a, false
	}
	text, ok := s.sealer.Open(kept, name)
	ok = ok && json.Unmarshal(text, &a) == nil && a.State == state && s.o.Clock().Before(a.Ends)
	return a, ok
}

// Finished is an attempt that has ended well.
type Finished struct {
	sessions.Opened
	// Return is the address within the page to which somebody returns; may be empty.
	Return string
}

// ErrAgain is the error about somebody who has come back without the cookie of the attempt, for the first time: some
// browsers keep it back after a chain of redirects, or have another one by now. Again begins the next one.
var ErrAgain = errors.New("the cookie of the attempt is not there")

// Again is Begin for somebody who has come back without the cookie.
func (s *Service) Again(ctx context.Context, name string) (Begun, error) {
	return s.begin(ctx, name, attempt{State: second + rand.Text()})
}

// Finish opens a session for somebody who has come back with a query and the cookie of an attempt, and ends the session
// before, by its key. CodeNotFound, ErrAgain, *Refusal. Up to three calls of the provider, and what
// sessions.Service.OpenElsewhere costs.
func (s *Service) Finish(ctx context.Context, name string, query url.Values, cookie, before string) (Finished, error) {
	p, err := s.named(name)
	if err != nil {
		return Finished{}, err
	}
	a, ok := s.open(name, cookie, query.Get("state"))
	if !ok && !strings.HasPrefix(query.Get("state"), second) {
		return Finished{}, ErrAgain
	}
	f := Finished{Return: a.Return}
	if ok {
		f.Opened, err = s.finish(ctx, p, a, query, before)
	} else {
		err = &Refusal{Expired, errors.New("the browser has come back without the cookie of the attempt twice")}
	}
	if refusal := (*Refusal)(nil); err != nil && !errors.As(err, &refusal) {
		reason := Unavailable
		if models.CodeOf(err) == models.CodeForbidden {
			reason = NotAllowed
		}
		err = &Refusal{reason, err}
	}
	s.count(ctx, name, err)
	return f, err
}

// finish opens a session for who has come back with the cookie.
func (s *Service) finish(ctx context.Context, p *provider, a attempt, query url.Values, before string) (sessions.Opened, error) {
	found, err := p.look(ctx)
	if err != nil {
		return sessions.Opened{}, err
	}
	if from := query.Get("iss"); from != "" && from != p.Issuer { // RFC 9207
		return sessions.Opened{}, &Refusal{Refused, fmt.Errorf("the answer is of %q, not of %q", short(from), p.Issuer)}
	}
	if refused := query.Get("error"); refused != "" {
		reason := Refused
		if refused == "temporarily_unavailable" || refused == "server_error" {
			reason = Unavailable
		}
		return sessions.Opened{}, &Refusal{reason, fmt.Errorf("the provider says %q", short(refused))}
	}
	answer, token, err := s.exchange(ctx, p, found, a, query.Get("code"))
	if err != nil {
		return sessions.Opened{}, err
	}
	claims, err := p.claims(ctx, found, answer, token)
	if err != nil {
		return sessions.Opened{}, err
	}
	who, err := p.whoIs(token, claims)
	if err != nil {
		return sessions.Opened{}, err
	}
	who.TimeZone, who.Before = a.TimeZone, before
	return s.o.Sessions.OpenElsewhere(ctx, who)
}

// exchange returns the answer to a code, and its ID token, which it checks. *Refusal.
func (s *Service) exchange(ctx context.Context, p *provider, found *oidc.Provider, a attempt, code string) (*oauth2.Token, *oidc.IDToken, error) {
	answer, err := s.config(p, found).Exchange(context.WithValue(ctx, oauth2.HTTPClient, p.client), code, oauth2.VerifierOption(a.Verifier))
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode == "invalid_grant":
		return nil, nil, &Refusal{Expired, errors.New("the provider does not take the code: it was used already, or its time is over")}
	case err != nil:
		return nil, nil, &Refusal{Unavailable, fmt.Errorf("exchange the code: %w", harmless(err))}
	}
	text, _ := answer.Extra("id_token").(string)
	token, err := found.Verifier(&oidc.Config{ClientID: p.ClientID, Now: s.o.Clock}).Verify(ctx, text)
	switch {
	case err != nil && strings.Contains(err.Error(), "fetching keys"): // go-oidc has no error of its own for it
		return nil, nil, &Refusal{Unavailable, harmless(err)}
	case err != nil:
		return nil, nil, &Refusal{Refused, harmless(err)}
	case token.Nonce != a.Nonce:
		return nil, nil, &Refusal{Refused, errors.New("the ID token has another nonce")}
	}
	var party struct {
		Authorized string `json:"azp"`
	}
	if err := token.Claims(&party); err != nil || party.Authorized != "" && party.Authorized != p.ClientID || party.Authorized == "" && len(token.Audience) > 1 {
		return nil, nil, &Refusal{Refused, errors.New("the ID token was made for another client")}
	}
	return answer, token, nil
}

// names are the claims that may have somebody's name, the best one first.
var names = []string{"name", "preferred_username", "nickname", "given_name"}

// claims returns the claims of an ID token, and those of the user info endpoint if the token lacks one of the settings or a
// name: some providers put only the subject into it. *Refusal.
func (p *provider) claims(ctx context.Context, found *oidc.Provider, answer *oauth2.Token, token *oidc.IDToken) (map[string]any, error) {
	claims := make(map[string]any)
	if err := token.Claims(&claims); err != nil {
		return nil, &Refusal{Refused, err}
	}
	has := func(claim string) bool { return claims[claim] != nil }
	lacks := !slices.ContainsFunc(names, has) || p.UserClaim != "" && !has(p.UserClaim) ||
		slices.ContainsFunc(p.Allow, func(a Allow) bool { return !has(a.Claim) })
	if !lacks || found.UserInfoEndpoint() == "" {
		return claims, nil
	}
	info, err := found.UserInfo(oidc.ClientContext(ctx, p.client), oauth2.StaticTokenSource(answer))
	if err != nil {
		return nil, &Refusal{Unavailable, fmt.Errorf("ask for user info: %w", harmless(err))}
	}
	more := make(map[string]any)
	if err := info.Claims(&more); err != nil || info.Subject != token.Subject { // OpenID Connect Core, section 5.3.2
		return nil, &Refusal{Refused, errors.New("the user info is somebody else's")}
	}
	maps.Copy(more, claims)
	return more, nil
}

// whoIs returns who an ID token names, or a *Refusal if the settings don't let them in.
func (p *provider) whoIs(token *oidc.IDToken, claims map[string]any) (sessions.Elsewhere, error) {
	who := sessions.Elsewhere{Issuer: token.Issuer, Subject: token.Subject, Lasts: p.Session}
	if who.Subject == "" || len(who.Subject) > 255 { // OpenID Connect Core, section 2
		return who, &Refusal{Refused, errors.New("the ID token has no good subject")}
	}
	for _, allow := range p.Allow {
		if !slices.ContainsFunc(texts(claims[allow.Claim]), func(value string) bool { return slices.Contains(allow.Values, value) }) {
			return who, &Refusal{NotAllowed, fmt.Errorf("the claim %s has none of the values of sign_in.oidc", allow.Claim)}
		}
	}
	if p.UserClaim != "" {
		id, _ := claims[p.UserClaim].(string)
		if who.User = models.UserID(id); !who.User.Valid() {
			return who, &Refusal{NotAllowed, fmt.Errorf("the claim %s has no id of a user", p.UserClaim)}
		}
	}
	for _, claim := range names {
		name, _ := claims[claim].(string)
		if name, err := models.NormalizeName(claim, name); err == nil {
			who.Nickname = name
			break
		}
	}
	return who, nil
}

// texts returns a claim that is a text or a list of texts.
func texts(claim any) (list []string) {
	switch claim := claim.(type) {
	case string:
		return []string{claim}
	case []any:
		for _, item := range claim {
			if text, ok := item.(string); ok {
				list = append(list, text)
			}
		}
	}
	return list
}

// harmless returns an error without what a provider has answered but for its first words: they may be long.
func harmless(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.Response != nil {
		return fmt.Errorf("the provider has answered with status %d, error %q", refused.Response.StatusCode, short(refused.ErrorCode))
	}
	return errors.New(short(err.Error()))
}

// short returns the beginning of a text.
func short(text string) string {
	if len(text) <= maxText {
		return text
	}
	return string(bytes.ToValidUTF8([]byte(text[:maxText]), nil)) + "…"
}
