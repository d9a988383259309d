package e2e_test

import "stepboard/models"

// audience is whose tokens an operation takes, in the words of /openapi.json.
type audience string

const (
	users     audience = "With a user's token; with a service token on behalf of ?user_id=."
	backends  audience = "With a token of scope service."
	operators audience = "With a token of scope admin."
	managers  audience = "With a token of scope service or admin."
	everybody audience = "With any token."
	phone     audience = "With the key of an upload address, and no token."
	nobody    audience = "Without a token."
	ownPage   audience = "Without a token, by the service's own page."
)

// open reports whether the operations of an audience need no token.
func open(by audience) bool { return by == nobody || by == ownPage }

// access is an operation's entry in the authorization matrix.
type access struct {
	by audience
	// own is the status for a caller whom the operation is meant for: the user whom it is
	// about, a backend on behalf of that user, or an operator.
	own int
	// friend and stranger are the statuses for two other users who make the same call: a
	// friend who is in the same group, and somebody who is neither. 0 stands for own.
	friend, stranger int
	// device is the status of a call of the service's own page on a device of the user that is signed in. 0 stands for own.
	device int
	// board, group, competition and id are the values of the path: by default steps, <group>,
	// <competition> and <friend>.
	board, group, competition, id string
	// query is what the call needs beside a user_id. Calls on behalf of users have none.
	query string
	// body is the body. In it and in the path, names in angle brackets stand for people and their group.
	body string
}

// people are the users of one call of the matrix, their group and its invite code, and a competition
// that it is in.
type people struct {
	owner, friend, stranger, asker models.UserID
	group, code, invite            string
	competition, entry             string
}

// values are the names in entries and roles, each followed by its value.
func (p people) values() []string {
	return []string{
		"<owner>", string(p.owner), "<friend>", string(p.friend), "<stranger>", string(p.stranger),
		"<asker>", string(p.asker), "<group>", p.group, "<code>", p.code, "<invite>", p.invite,
		"<competition>", p.competition, "<entry>", p.entry,
	}
}

const (
	newProfile  = `{"nickname":"Ann"}`
	anyReason   = `{"reason":"a test"}`
	anyDecision = `{"reason":"a test","score":1}`
	unknownID   = "999999" // the id of nothing

	newCompetition = `{"board":"steps","name":"Walk","from":"2026-12-01","to":"2026-12-14"}`
)

// matrix has an entry for each operation.
func matrix() map[string]access {
	return map[string]access{
		"GET /v1/boards":                               {by: everybody, own: 200},
		"GET /v1/boards/{board}/top":                   {by: everybody, own: 200},
		"POST /v1/boards/{board}/scores":               {by: users, own: 200, body: `{"date":"2026-11-20","score":5}`},
		"GET /v1/boards/{board}/friends":               {by: users, own: 200},
		"GET /v1/boards/{board}/friends/stream":        {by: users, own: 200},
		"GET /v1/boards/{board}/groups/{group}":        {by: users, own: 200, stranger: 404},
		"GET /v1/boards/{board}/groups/{group}/stream": {by: users, own: 200, stranger: 404},
		"GET /v1/boards/{board}/friends/absent":        {by: users, own: 200},
		"GET /v1/boards/{board}/groups/{group}/absent": {by: users, own: 200, stranger: 404},
		"GET /v1/boards/{board}/around":                {by: users, own: 200},
		"GET /v1/boards/{board}/me":                    {by: users, own: 200},
		"GET /v1/boards/{board}/me/explain":            {by: users, own: 200},
		"GET /v1/boards/{board}/history":               {by: users, own: 200},
		"GET /v1/boards/{board}/summary":               {by: users, own: 200},
		"GET /v1/boards/{board}/likes/{id}":            {by: users, own: 200, stranger: 404},
		"PUT /v1/boards/{board}/likes/{id}":            {by: users, own: 204, friend: 422, stranger: 404},
		"DELETE /v1/boards/{board}/likes/{id}":         {by: users, own: 204},

		"GET /v1/friends":                       {by: users, own: 200},
		"DELETE /v1/friends/{id}":               {by: users, own: 204},
		"GET /v1/friends/requests":              {by: users, own: 200},
		"POST /v1/friends/requests":             {by: users, own: 201, body: `{"user_id":"<asker>"}`},
		"POST /v1/friends/requests/{id}/accept": {by: users, own: 200, friend: 404, stranger: 404, id: "<asker>"},
		"DELETE /v1/friends/requests/{id}":      {by: users, own: 204, id: "<asker>"},

		"GET /v1/me/invite":              {by: users, own: 200},
		"POST /v1/me/invite":             {by: users, own: 200},
		"GET /v1/friends/invites/{code}": {by: users, own: 200, id: "<invite>"},
		"POST /v1/friends/join":          {by: users, own: 200, body: `{"invite_code":"<invite>"}`},

		"GET /v1/me/privacy":                       {by: users, own: 200},
		"PUT /v1/me/privacy":                       {by: users, own: 200, body: `{"hidden":true}`},
		"GET /v1/me/push":                          {by: users, own: 200},
		"PUT /v1/me/push":                          {by: users, own: 200, body: `{"tell":["passed"]}`},
		"DELETE /v1/me/push":                       {by: users, own: 204},
		"GET /v1/hidden-from":                      {by: users, own: 200},
		"GET /v1/sign-in":                          {by: nobody, own: 200},
		"POST /v1/session/code":                    {by: ownPage, own: 200, body: `{"code":"<invite>"}`},
		"POST /v1/session":                         {by: ownPage, own: 201, body: `{"code":"<invite>","nickname":"Eve"}`},
		"POST /v1/session/token":                   {by: ownPage, own: 401, device: 200, body: `{}`},
		"DELETE /v1/session":                       {by: ownPage, own: 204, body: `{}`},
		"GET /v1/me/sessions":                      {by: users, own: 200},
		"POST /v1/me/sign-in-codes":                {by: users, own: 201},
		"DELETE /v1/me/sessions/{session}":         {by: users, own: 404},
		"POST /v1/admin/users/{id}/sign-in-codes":  {by: operators, own: 201, body: `{"ttl":"24h"}`},
		"POST /v1/admin/sign-in-codes":             {by: operators, own: 201, body: `{"people":[{"nickname":"Dan"}]}`},
		"GET /v1/admin/operators":                  {by: operators, own: 200},
		"PUT /v1/admin/operators/{id}":             {by: operators, own: 204},
		"DELETE /v1/admin/operators/{id}":          {by: operators, own: 204},
		"GET /v1/admin/users/{id}/came-by":         {by: operators, own: 200},
		"GET /v1/me/upload-addresses":              {by: users, own: 200},
		"POST /v1/me/upload-addresses":             {by: users, own: 201, body: `{"name":"phone","board":"steps"}`},
		"PUT /v1/me/upload-addresses/{address}":    {by: users, own: 404, body: `{"name":"phone","time_zone":"UTC"}`},
		"DELETE /v1/me/upload-addresses/{address}": {by: users, own: 404},
		"POST /v1/in/{key}":                        {by: phone, own: 401},
		"POST /v1/in":                              {by: phone, own: 401},
		"POST /v1/wechat/sessions":                 {by: nobody, own: 422, body: `{"appid":"wx1","code":"c"}`},
		"POST /v1/wechat/steps":                    {by: users, own: 422, body: `{"appid":"wx1","encrypted_data":"","iv":""}`},
		"PUT /v1/hidden-from/{id}":                 {by: users, own: 204, id: "<asker>"},
		"DELETE /v1/hidden-from/{id}":              {by: users, own: 204, id: "<asker>"},
		"GET /v1/muted":                            {by: users, own: 200},
		"PUT /v1/muted/{id}":                       {by: users, own: 204, id: "<asker>"},
		"DELETE /v1/muted/{id}":                    {by: users, own: 204, id: "<asker>"},
		"GET /v1/blocked":                          {by: users, own: 200},
		"PUT /v1/blocked/{id}":                     {by: users, own: 204, id: "<asker>"},
		"DELETE /v1/blocked/{id}":                  {by: users, own: 204, id: "<asker>"},

		"GET /v1/groups":                         {by: users, own: 200},
		"POST /v1/groups":                        {by: users, own: 201, body: `{"name":"Family"}`},
		"GET /v1/group-invites/{code}":           {by: users, own: 200, id: "<code>"},
		"POST /v1/groups/join":                   {by: users, own: 200, body: `{"invite_code":"<code>"}`},
		"GET /v1/groups/{group}":                 {by: users, own: 200, stranger: 404},
		"PUT /v1/groups/{group}":                 {by: users, own: 200, friend: 403, stranger: 404, body: `{"name":"Work"}`},
		"DELETE /v1/groups/{group}":              {by: users, own: 204, friend: 403},
		"POST /v1/groups/{group}/invite":         {by: users, own: 200, friend: 403, stranger: 404},
		"DELETE /v1/groups/{group}/members/{id}": {by: users, own: 204, stranger: 404},

		// There is no standing before the first run of the job that makes it.
		"GET /v1/competitions":                      {by: everybody, own: 200},
		"GET /v1/competitions/{competition}":        {by: everybody, own: 200, stranger: 404},
		"GET /v1/competitions/{competition}/teams":  {by: everybody, own: 503, stranger: 404},
		"GET /v1/competitions/{competition}/people": {by: everybody, own: 503, stranger: 404},
		"POST /v1/competitions/join":                {by: users, own: 200, friend: 403, stranger: 404, body: `{"code":"<entry>","group_id":"<group>"}`},
		"PUT /v1/competitions/{competition}":        {by: managers, own: 200, body: newCompetition},
		"DELETE /v1/competitions/{competition}":     {by: managers, own: 204},

		"GET /v1/me":        {by: users, own: 200},
		"PUT /v1/me":        {by: users, own: 200, body: newProfile},
		"DELETE /v1/me":     {by: users, own: 202, body: `{"confirm":"erase"}`},
		"GET /v1/me/export": {by: users, own: 200},

		"POST /v1/boards/{board}/scores/batch": {by: backends, own: 200, body: `{"scores":[{"user_id":"<owner>","date":"2026-11-20","score":5}]}`},
		"POST /v1/boards/{board}/increments":   {by: backends, own: 200, board: "gifts", body: `{"user_id":"<owner>","delta":5,"event_id":"<group>"}`},
		"PUT /v1/groups/{group}/members":       {by: backends, own: 200, group: "of-a-backend", body: `{"member_ids":["<owner>"]}`},
		"PUT /v1/users/{id}":                   {by: backends, own: 200, body: newProfile},
		"POST /v1/users/{id}/rename":           {by: backends, own: 204, body: `{"to":"<friend>-2"}`},
		"PUT /v1/users/{id}/friends":           {by: backends, own: 200, body: `{"friend_ids":["<stranger>"]}`},
		"DELETE /v1/users/{id}":                {by: backends, own: 202},

		"GET /v1/admin/audit":                                    {by: operators, own: 200},
		"GET /v1/admin/status":                                   {by: operators, own: 200},
		"POST /v1/admin/boards":                                  {by: operators, own: 201, body: `{"name":"<group>","kind":"daily","max_score":5}`},
		"PUT /v1/admin/boards/{board}":                           {by: operators, own: 200, board: "gifts", body: `{"end":"2027-02-20T12:00:00Z"}`},
		"GET /v1/admin/boards/{board}":                           {by: operators, own: 200},
		"GET /v1/admin/archives":                                 {by: operators, own: 200},
		"POST /v1/admin/archives":                                {by: operators, own: 404, body: `{"board":"steps","bucket":"2026-11-01"}`},
		"GET /v1/admin/boards/{board}/buckets":                   {by: operators, own: 200},
		"GET /v1/admin/users":                                    {by: operators, own: 200, query: "name=a"},
		"GET /v1/admin/users/{id}":                               {by: operators, own: 200},
		"GET /v1/admin/users/{id}/explain":                       {by: operators, own: 200, query: "board=steps"},
		"GET /v1/admin/users/{id}/export":                        {by: operators, own: 200},
		"DELETE /v1/admin/users/{id}":                            {by: operators, own: 202, body: anyReason},
		"GET /v1/admin/erasures":                                 {by: operators, own: 200},
		"GET /v1/admin/corrections":                              {by: operators, own: 200},
		"POST /v1/admin/corrections":                             {by: operators, own: 201, body: `{"board":"steps","user_id":"<friend>","kind":"exclude","reason":"a test"}`},
		"POST /v1/admin/corrections/{id}/lift":                   {by: operators, own: 404, id: unknownID, body: anyReason},
		"GET /v1/admin/reviews":                                  {by: operators, own: 200},
		"POST /v1/admin/reviews/{id}/dismiss":                    {by: operators, own: 404, id: unknownID, body: anyReason},
		"GET /v1/admin/holds":                                    {by: operators, own: 200},
		"POST /v1/admin/holds/{id}/release":                      {by: operators, own: 404, id: unknownID, body: anyDecision},
		"POST /v1/admin/holds/{id}/reject":                       {by: operators, own: 404, id: unknownID, body: anyDecision},
		"POST /v1/admin/competitions/{competition}/recompute":    {by: operators, own: 404, competition: unknownID, body: anyReason},
		"GET /v1/admin/dead-letters":                             {by: operators, own: 200},
		"POST /v1/admin/dead-letters/{id}/replay":                {by: operators, own: 404, id: unknownID},
		"DELETE /v1/admin/dead-letters/{id}":                     {by: operators, own: 204, id: unknownID},
		"POST /v1/admin/dead-letters/replay":                     {by: operators, own: 200, body: `{"filter":{"board":"steps"}}`},
		"POST /v1/admin/dead-letters/delete":                     {by: operators, own: 200, body: `{"filter":{"board":"steps"}}`},
		"GET /v1/admin/webhooks/deliveries":                      {by: operators, own: 200},
		"POST /v1/admin/webhooks/deliveries/{id}/replay":         {by: operators, own: 404, id: unknownID},
		"GET /v1/admin/users/{id}/upload-addresses":              {by: operators, own: 200},
		"DELETE /v1/admin/users/{id}/upload-addresses/{address}": {by: operators, own: 404},
	}
}
