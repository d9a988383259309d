// Package sessions signs people in on their devices, without a backend of an app.
//
// # Sessions
//
// A device that signs in gets a session: a key in a cookie that lives long, of which SQL has the hash. The page
// exchanges it for access tokens of a quarter of an hour, which all calls take. A session ends when it was not used for
// long, and when its user or an operator ends it; what is in use then goes on until its token ends. Tokens of operators
// are looked up at each call.
//
// # Codes
//
// A session is opened by a code. The first code of a data folder makes the first user, who is an operator. An invitation
// of a group or a friend makes a new user, if the settings permit that. A code for one use opens a session of somebody
// who exists. Codes for one use have 50 random bits: wrong ones are counted for each network and, in SQL, for the whole
// service.
//
// # Providers
//
// Who an OpenID Connect provider has signed in is found by their identity, or is new. Their session ends after some days
// however often it is used, so that whom the provider does not know any more is out.
//
// # Operators
//
// Operators are users with a flag. Their sessions may ask for tokens of scope admin, too.
package sessions
