package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/rankings/notices"
)

// PushService keeps what users want to be told of.
type PushService interface {
	PublicKey() string
	List(ctx context.Context, user models.UserID) ([]models.PushSubscription, error)
	Put(ctx context.Context, user models.UserID, c notices.Choice) (models.PushSubscription, error)
	End(ctx context.Context, user models.UserID, endpoint *string) error
	EndAll(ctx context.Context, user models.UserID) error
}

// pushHandlers serves what users want to be told of.
type pushHandlers struct {
	service PushService
}

var getPush = operation{
	id:      "getPush",
	summary: "Get what one is told of",
	description: "The user's browsers that are told by Web Push, and with `endpoint` null what the app is told of for the user. " +
		"A page subscribes for `vapid_public_key`.",
}

type push struct {
	PublicKey     *string        `json:"vapid_public_key" nullable:"true" doc:"The applicationServerKey of PushManager.subscribe; null if this service sends no Web Push" example:"BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-Ts1XbjhazAkj7I99e8QcYP7DkM"`
	Subscriptions []subscription `json:"subscriptions" nullable:"false" doc:"Oldest first"`
}

type subscription struct {
	Endpoint  *string          `json:"endpoint" nullable:"true" doc:"The address that the browser got from its push service; null for the app's own"`
	Tell      []models.Tell    `json:"tell" nullable:"false" enum:"passed,likes,requests,digest" doc:"What is told there"`
	TimeZone  string           `json:"time_zone" doc:"Where the user is; empty if that is not known" example:"Asia/Shanghai"`
	CreatedAt models.Timestamp `json:"created_at" format:"date-time" doc:"When it was stored first" example:"2026-11-20T13:00:00.123Z"`
}

func subscriptionOf(p models.PushSubscription) subscription {
	return subscription{Endpoint: p.Endpoint, Tell: p.Told.List(), TimeZone: p.TimeZone, CreatedAt: models.TimestampOf(p.CreatedAt)}
}

func (h *pushHandlers) get(ctx context.Context, user models.UserID, _ *OnBehalf) (*output[push], error) {
	list, err := h.service.List(ctx, user)
	found := push{Subscriptions: answersOf(list, subscriptionOf)}
	if key := h.service.PublicKey(); key != "" {
		found.PublicKey = &key
	}
	return outputOf(found, err)
}

var setPush = operation{
	id:      "setPush",
	summary: "Choose what to be told of",
	description: "Store a browser's subscription and what it is told of, in place of the one of the same endpoint, whoever's it was. " +
		"A user has at most 5 browsers: one more ends the oldest. Without `endpoint` and `keys`, `{\"tell\":[\"passed\"]}` lets the app's backend hear " +
		"by webhook, and the user's open streams by the event `passed`, who has passed the user. " +
		"An endpoint that may not be reached is refused.",
}

type newSubscription struct {
	Endpoint string        `json:"endpoint,omitempty" maxLength:"2048" doc:"The address that the browser got from its push service" example:"https://push.example.net/wpush/v2/gAAAAABk"`
	Keys     *browserKeys  `json:"keys,omitempty" doc:"The browser's keys, beside endpoint"`
	Tell     []models.Tell `json:"tell" nullable:"false" minItems:"1" maxItems:"4" uniqueItems:"true" enum:"passed,likes,requests,digest" doc:"What to tell. passed: who has gone past the user today; likes: who likes a score; requests: who wants to be friends; digest: the place in the evening" example:"[\"passed\",\"likes\"]"`
	TimeZone string        `json:"time_zone,omitempty" maxLength:"64" doc:"Where the user is, an IANA name: nobody is told of passed from 22:00 to 8:00 there. Empty: the zone of the board" example:"Asia/Shanghai"`
}

// browserKeys are the keys of a browser's subscription.
type browserKeys struct {
	P256DH string `json:"p256dh" maxLength:"128" doc:"Its public key, in base64" example:"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"`
	Auth   string `json:"auth" maxLength:"64" doc:"Its secret of 16 bytes, in base64" example:"BTBZMqHH6r4Tts7J_aSIgg"`
}

func (h *pushHandlers) set(ctx context.Context, user models.UserID, in *ownInput[newSubscription]) (*output[subscription], error) {
	choice := notices.Choice{Endpoint: in.Body.Endpoint, Tell: in.Body.Tell, TimeZone: in.Body.TimeZone}
	if keys := in.Body.Keys; keys != nil {
		choice.P256DH, choice.Auth = keys.P256DH, keys.Auth
	}
	stored, err := h.service.Put(ctx, user, choice)
	return outputOf(subscriptionOf(stored), err)
}

var endPush = operation{
	id:      "endPush",
	summary: "Be told of nothing more",
	description: "With `{\"endpoint\":\"…\"}`, end the subscription of one browser, as a page does when its user signs out; with null, the app's own. " +
		"Without a body, end all of the user's. If there is none, nothing changes.",
}

type endPushInput struct {
	OnBehalf
	Body *endedSubscription `required:"false"`
}

type endedSubscription struct {
	Endpoint *string `json:"endpoint" nullable:"true" minLength:"1" maxLength:"2048" doc:"The browser's address; null for the app's own" example:"https://push.example.net/wpush/v2/gAAAAABk"`
}

func (h *pushHandlers) end(ctx context.Context, user models.UserID, in *endPushInput) (*struct{}, error) {
	if in.Body == nil {
		return nil, h.service.EndAll(ctx, user)
	}
	return nil, h.service.End(ctx, user, in.Body.Endpoint)
}
