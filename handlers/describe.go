package handlers

import (
	"net/http"
)

// about is what the description of a call says beyond its summary, who may
// make it, and the errors that every call has.
type about struct {
	text   string
	errors []int
}

// withBody are the errors of a call that takes a body, and what else it has.
func withBody(more ...int) []int {
	return append([]int{http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge}, more...)
}

// calls has an entry for each call of the API, by method and path.
var calls = map[string]about{
	"POST /v1/boards/{board}/scores": {
		"Send the user's total for a day, such as `{\"date\":\"2026-11-20\",\"score\":12345}`, or up to seven days that were kept offline, as " +
			"`{\"scores\":[{\"date\":\"2026-11-19\",\"score\":8000},{\"date\":\"2026-11-20\",\"score\":12345}]}`. " +
			"The highest total of a day counts, so sending one again changes nothing. Either all items are taken or none.",
		withBody(http.StatusNotFound, http.StatusConflict),
	},
	"POST /v1/boards/{board}/scores/batch": {
		"Send totals of up to 1,000 users, such as `{\"scores\":[{\"user_id\":\"1001\",\"date\":\"2026-11-20\",\"score\":12345}]}`. " +
			"Each item stands for itself: the answer counts those that were taken and says of the others what is wrong.",
		withBody(http.StatusNotFound, http.StatusConflict),
	},
	"POST /v1/boards/{board}/increments": {
		"Add to scores on event and rolling boards: `{\"user_id\":\"1001\",\"delta\":5,\"event_id\":\"gift-2381\"}`, or up to 1,000 as " +
			"`{\"increments\":[{\"user_id\":\"1001\",\"delta\":5,\"event_id\":\"gift-2381\"}]}`. " +
			"An event_id counts once on a board: sent again as it was, it is answered duplicate, with what it led to the first time, also after the event; " +
			"with another user_id or delta it is rejected as event_id_conflict. So after a time-out or a 503 send the same again. " +
			"Of a list each item stands for itself, and what is wrong with one is in its result; one that is sent alone is refused with the error's own status. " +
			"Increments of a user that are counted together all have the reached_at of the latest.",
		withBody(http.StatusNotFound, http.StatusConflict),
	},
	"GET /v1/boards": {
		"Every board with its limits, its time zone, and the day that it is there now.",
		nil,
	},
	"GET /v1/boards/{board}/friends": {
		"One page of the user and the user's friends, best first. Who has no score that day is not listed. " +
			"The first page of a past day is `?date=2026-11-19&limit=50`; the next one adds `&cursor=` with the page's next_cursor.",
		[]int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict},
	},
	"GET /v1/boards/{board}/friends/stream": {
		"The first page of the user and the user's friends as server-sent events: one at once, and one whenever it has changed. " +
			"Each `ranking` event's data is what GET /v1/boards/{board}/friends answers; `?limit=` is the size of the page. " +
			"A comment every 15 seconds says that the connection lives. An `error` event with a problem ends the stream; it also ends when the service stops, " +
			"and after five minutes, so that the token is checked again. Connect again then. A user may have five streams at once.",
		[]int{http.StatusBadRequest, http.StatusNotFound, http.StatusTooManyRequests},
	},
	"GET /v1/boards/{board}/top": {
		"One page of everybody, best first, with the caller's own line in me. " +
			"The ten best of today are `?limit=10`; the next ten add `&cursor=` with the page's next_cursor.",
		[]int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict},
	},
	"GET /v1/boards/{board}/around": {
		"The user with the neighbours above and below: `?radius=2` gives up to five lines. Empty for a user without a score that day.",
		[]int{http.StatusNotFound, http.StatusConflict},
	},
	"GET /v1/boards/{board}/me": {
		"The user's score and places on one day, such as `?date=2026-11-19`. Without a score they are null.",
		[]int{http.StatusNotFound, http.StatusConflict},
	},
	"GET /v1/boards/{board}/history": {
		"The user's days, newest first, wherever they are; days without a score are left out. " +
			"A month is `?from=2026-10-01&to=2026-10-31`, at most 366 days; without both it is the last 31 days. " +
			"`&for=1002` answers a friend's days.",
		[]int{http.StatusNotFound, http.StatusConflict},
	},
	"POST /v1/admin/boards": {
		"Defines a board while the service runs, such as `{\"name\":\"gifts-spring\",\"kind\":\"event\",\"max_score\":10000000,\"start\":\"2026-12-01T12:00:00Z\",\"end\":\"2026-12-24T15:00:00Z\"}`. " +
			"This process knows it at once, others within seconds. What the board's buckets are made with never changes.",
		withBody(http.StatusConflict),
	},
	"GET /v1/admin/boards/{board}": {
		"The definition as it is stored, with the resolution that it comes to.",
		[]int{http.StatusNotFound},
	},
	"GET /v1/admin/archives": {
		"The runs of the nightly archival, newest first, with their figures; `?state=failed` lists what went wrong and why.",
		[]int{http.StatusBadRequest},
	},
	"POST /v1/admin/archives": {
		"Archive a day that is past its hot days, such as `{\"board\":\"steps\",\"bucket\":\"2026-11-16\"}`, or merge what came since. " +
			"The run goes on behind the answer; GET /v1/admin/archives tells how far it is. bucket_hot: it is too early; archive_running: somebody is at it.",
		withBody(http.StatusNotFound, http.StatusConflict),
	},
	"GET /v1/admin/dead-letters": {
		"Updates that were accepted into the queue and can't be applied, newest first, with the reason.",
		[]int{http.StatusBadRequest},
	},
	"POST /v1/admin/dead-letters/{id}/replay": {
		"Applies the update and removes it from the list, once what was wrong is mended. Where it still can't be applied, validation_failed says why.",
		[]int{http.StatusNotFound},
	},
	"DELETE /v1/admin/dead-letters/{id}": {
		"Gives the update up, for good. Where there is none, nothing changes.",
		nil,
	},
	"GET /v1/friends": {
		"One page of the user's friends by id: `?limit=50`, then `&cursor=` with the page's next_cursor.",
		[]int{http.StatusBadRequest},
	},
	"DELETE /v1/friends/{id}": {
		"Ends the friendship on both sides. Where there is none, nothing changes.",
		nil,
	},
	"GET /v1/friends/requests": {
		"One page of the requests that wait for an answer, incoming and outgoing, newest first.",
		[]int{http.StatusBadRequest},
	},
	"POST /v1/friends/requests": {
		"Ask a user, such as `{\"user_id\":\"1002\"}`. 201 says that this call made the request, or the friendship where the other had asked already; " +
			"200 that it stood before.",
		withBody(http.StatusNotFound, http.StatusConflict),
	},
	"POST /v1/friends/requests/{id}/accept": {
		"Accept what the user {id} has asked: /v1/friends/requests/1002/accept makes 1002 a friend.",
		[]int{http.StatusNotFound, http.StatusConflict},
	},
	"DELETE /v1/friends/requests/{id}": {
		"Decline what the user {id} has asked, or withdraw what that user was asked. Where there is no request, nothing changes.",
		nil,
	},
	"PUT /v1/me": {
		"Set the whole profile, such as `{\"nickname\":\"Ann\",\"avatar_url\":\"https://example.com/ann.png\"}`. " +
			"The nickname is required and not empty; an avatar_url that is left out becomes empty.",
		withBody(),
	},
	"PUT /v1/users/{id}": {
		"Set a user's whole profile, such as `{\"nickname\":\"Ann\"}`, making the user if need be. " +
			"The nickname is required and not empty; an avatar_url that is left out becomes empty.",
		withBody(),
	},
	"PUT /v1/users/{id}/friends": {
		"For apps that keep friendships elsewhere: `{\"friend_ids\":[\"1002\",\"1003\"]}` makes these the user's friends, on both sides, and nobody else. " +
			"An empty list ends all of the user's friendships.",
		withBody(http.StatusConflict),
	},
}
