package handlers

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// tags are the groups of calls, in the order in which /docs shows them: first those
// of users, in the order in which an app needs them.
func tags() []*huma.Tag {
	return []*huma.Tag{
		{Name: "Rankings", Description: "The boards, the rankings on them and one's own days. With a user's token."},
		{Name: "Uploads", Description: "Report one's own totals, and let a phone do it. With a user's token."},
		{Name: "Friends", Description: "Friends and friend requests. With a user's token."},
		{Name: "Privacy", Description: "Hide one's scores, mute and block. With a user's token."},
		{Name: "Groups", Description: "Groups, which their members join by an invite code. With a user's token."},
		{Name: "Competitions", Description: "Competitions, in which groups are the teams. With a user's token."},
		{Name: "Profile", Description: "How others see oneself, and what one is told of. With a user's token."},
		{Name: "Phones", Description: "Calls of apps that send steps. With the key of an upload address, and no token."},
		{Name: "Signing in", Description: "How people sign in on the page without an app. The page makes these calls; the cookie of a session is read by those that say so."},
		{Name: "WeChat", Description: "Calls of mini programs of WeChat, which need no backend. The first one gives a user's token."},
		{Name: "Backends", Description: "Calls of the app's own backend. With a token of scope `service`."},
		{Name: "Operators", Description: "Calls of those who run the service. With a token of scope `admin`."},
	}
}

// tagOf returns the tag of a call.
func tagOf(path string, by *audience) string {
	noun, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	switch {
	case by == byKey:
		return "Phones"
	case noun == "session" || noun == "sign-in" || noun == "me" && strings.Contains(path, "/sessions"):
		return "Signing in"
	case noun == "wechat":
		return "WeChat"
	case by == byService, by == byManager:
		return "Backends"
	case by == byAdmin:
		return "Operators"
	case strings.HasSuffix(path, "/scores") || strings.Contains(path, "/upload-addresses"):
		return "Uploads"
	case noun == "boards":
		return "Rankings"
	case noun == "friends":
		return "Friends"
	case strings.HasSuffix(path, "/privacy") || noun == "hidden-from" || noun == "muted" || noun == "blocked":
		return "Privacy"
	case noun == "groups":
		return "Groups"
	case noun == "competitions":
		return "Competitions"
	default:
		return "Profile"
	}
}
