// Package config holds the service's settings: defaults, overlaid by a YAML
// file, the environment and the command line, in this order, and checked as a
// whole before anything starts.
package config

import (
	"time"

	"stepboard/models"
)

//go:generate go run ../internal/settingsdoc ..

// Config holds every setting. The tag `doc` of a field describes it in --help,
// docs/settings.md and stepboard.example.yaml. The value of a `secret` field is
// never printed. A setting without a default may have an `example`.
type Config struct {
	Data           Data          `koanf:"data" doc:"The folder of a process without servers."`
	Backup         Backup        `koanf:"backup" doc:"Copies of the data folder's database elsewhere, made while it is served. docs/operations.md#a-disk-may-fail describes them."`
	HTTP           HTTP          `koanf:"http" doc:"Where the API listens."`
	Redis          Redis         `koanf:"redis" doc:"The boards of the last days. serve requires maxmemory-policy noeviction."`
	Postgres       Postgres      `koanf:"postgres" doc:"Everything that must outlive Redis."`
	Auth           Auth          `koanf:"auth" doc:"Which tokens are accepted. serve requires a secret or a JWKS."`
	Limits         Limits        `koanf:"limits" doc:"How often a caller may call, over all processes. docs/operations.md#limiting-calls says how calls are counted."`
	Ingest         Ingest        `koanf:"ingest" doc:"How uploads reach the boards."`
	Boards         []Board       `koanf:"boards" validate:"unique=Name,dive" doc:"A list of boards. A board that is taken out of it is served as before and takes uploads; serve and config check --connect name it, unless it is an event that is over. Without the list, servers have steps, as below, and a data folder keeps the boards that it has; a new one has steps with the days of the machine's time zone (TZ, or the link /etc/localtime, otherwise UTC; the log says which) and global service."`
	Rankings       Rankings      `koanf:"rankings" doc:"How rankings are read."`
	Cache          Cache         `koanf:"cache" doc:"Sets in Redis of friends, members of groups, and users who are not shown."`
	Directory      Directory     `koanf:"directory" doc:"The directory of users: user ids, nicknames and avatars."`
	SignIn         SignIn        `koanf:"sign_in" doc:"How people sign in on the page without an app: by codes, with tokens that are signed with auth.hs256_secret or the secret of a data folder."`
	Friends        Friends       `koanf:"friends" doc:"Friend requests, and the past days that friends show each other."`
	HotDays        int           `koanf:"hot_days" validate:"min=2,max=30" doc:"How many days a day stays in Redis after its own, 2 to 30, and at least a day longer than it takes uploads. A change takes effect with the next day that is made."`
	Archive        Archive       `koanf:"archive" doc:"Days that have left Redis, in Postgres."`
	Ledger         Ledger        `koanf:"ledger" doc:"Increments of event and rolling boards, in Postgres."`
	Webhooks       []Webhook     `koanf:"webhooks" validate:"max=20,unique=URL,dive" doc:"Addresses of the app's backend that outcomes are sent to. docs/webhooks.md describes them."`
	WeChat         WeChat        `koanf:"wechat" doc:"Mini programs of WeChat, whose people log in and upload steps without a backend. docs/wechat.md describes them."`
	Push           Push          `koanf:"push" doc:"Web Push: notices to the browsers of users who want them."`
	Passed         Passed        `koanf:"passed" doc:"Notices that a friend has passed the user today, for users who have chosen them."`
	Jobs           Jobs          `koanf:"jobs" doc:"Recurring work, done by one process at a time."`
	Clock          Clock         `koanf:"clock" doc:"The clock of the service."`
	StartupTimeout time.Duration `koanf:"startup_timeout" validate:"min=0,max=1h" doc:"How long serve waits at its start for stores and queue, 0s to 1h."`
	Page           Page          `koanf:"page" doc:"The page and the console."`
	Log            Log           `koanf:"log" doc:"The log, which goes to standard error."`
	Traces         Traces        `koanf:"traces" doc:"OpenTelemetry traces. docs/operations.md#traces describes them."`
}

// Page holds the settings of what browsers show.
type Page struct {
	LoginURL   string `koanf:"login_url" validate:"omitempty,http_url" example:"https://app.example.com/login" doc:"Address of the app's login, to which the page sends people who are not signed in (docs/guide.md#a-token). Empty: the page asks for a token."`
	GrafanaURL string `koanf:"grafana_url" validate:"omitempty,http_url" example:"https://grafana.example.com/d/stepboard" doc:"Address of a dashboard that the console links to. Empty: none."`
}

// Data holds the place of a data folder.
type Data struct {
	Dir string `koanf:"dir" doc:"Folder in which one process keeps everything, such as /var/lib/stepboard; --data is short for it. Not with settings of redis, postgres and ingest."`
}

// Backup holds where a data folder's database is copied to while it is served.
type Backup struct {
	To        string        `koanf:"to" doc:"Where everything that is committed is copied to: s3://bucket/prefix, or file:///folder on another disk. Needs data.dir. Empty: nowhere."`
	Endpoint  string        `koanf:"endpoint" validate:"omitempty,http_url" doc:"Address of an S3 service, such as https://minio.example.com:9000. Empty: that of Amazon."`
	Region    string        `koanf:"region" doc:"Region of the bucket, such as eu-central-1. Empty: AWS_REGION, or what the service answers."`
	AccessKey string        `koanf:"access_key" doc:"Id of the key to the bucket. Empty: the key is that of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, of ~/.aws/credentials, or of the machine's role."`
	SecretKey string        `koanf:"secret_key" secret:"true" doc:"The key to the bucket, with backup.access_key."`
	Interval  time.Duration `koanf:"interval" validate:"min=100ms,max=1m" doc:"How often what was committed since is copied, 100ms to 1m. Each time is a write to backup.to, unless nothing was committed."`
	Retain    time.Duration `koanf:"retain" validate:"min=24h,max=8760h" doc:"How far back the database can be restored, 24h to 8760h, and how long erased users stay in the copies: every state of the last day, and one for each hour before."`
	MaxLag    Size          `koanf:"max_lag" validate:"min=1000000" doc:"Most of what waits in the data folder while backup.to can't be written, at least 1 MB. Above it, what waits is deleted, and a copy of the whole database follows once it can."`
}

// HTTP holds the settings of the listeners.
type HTTP struct {
	Addr           string `koanf:"addr" validate:"hostport" doc:"Address to listen on, as host:port; :8080 is every address of the machine."`
	BasePath       string `koanf:"base_path" validate:"omitempty,basepath" example:"/steps" doc:"Path of the service's public address, such as /steps for https://example.com/steps/, of letters, digits and .-_~. Requests may arrive with it or without."`
	PublicURL      string `koanf:"public_url" validate:"omitempty,http_url" example:"https://steps.example.com" doc:"The service's address as people see it, with http.base_path: for links and cookies behind a proxy that changes the Host header, or that ends TLS. Empty: as requests arrive."`
	PprofAddr      string `koanf:"pprof_addr" validate:"omitempty,loopback" doc:"Address for profiles (/debug/pprof/), on this machine only, such as 127.0.0.1:6060. Empty: no profiles."`
	MetricsAddr    string `koanf:"metrics_addr" validate:"omitempty,hostport" doc:"Address for /metrics and the probes, as host:port. Let only Prometheus and probes reach it. Empty: /metrics is served on http.addr, as the probes always are."`
	MaxConnections int    `koanf:"max_connections" validate:"min=1,max=1000000" doc:"Most open connections to http.addr, 1 to 1000000, besides 16 for probes; each needs an open file. docs/operations.md#connections-of-clients says what happens above it."`
	TLSCert        string `koanf:"tls_cert" example:"/etc/stepboard/fullchain.pem" doc:"PEM file of the certificate of http.addr, with its chain. A renewed one is served without a restart."`
	TLSKey         string `koanf:"tls_key" example:"/etc/stepboard/privkey.pem" doc:"PEM file of the key of http.tls_cert."`
	// ACMEHosts are the only names for which certificates are obtained.
	ACMEHosts     []string `koanf:"acme_hosts" validate:"dive,fqdn" doc:"Names of the service, such as steps.example.com, for which it obtains certificates from Let's Encrypt, whose terms you thereby accept. Needs data.dir."`
	ACMEDirectory string   `koanf:"acme_directory" validate:"omitempty,http_url" doc:"ACME directory of another authority for http.acme_hosts. SSL_CERT_FILE names its root certificate. Empty: Let's Encrypt."`
	// CORSOrigins are compared with the Origin of a call, whatever the case.
	CORSOrigins []string `koanf:"cors_origins" validate:"dive,origin" doc:"Origins of pages that may call the API from a browser, such as https://app.example.com or capacitor://localhost. *: every page. Empty: only pages of the service's own origin."`
	// TrustedProxies are the only senders whose X-Forwarded-For is read.
	TrustedProxies []string `koanf:"trusted_proxies" validate:"dive,cidr|ip" doc:"Addresses or networks (10.0.0.0/8) of the proxies in front of the service. Only their X-Forwarded-For is believed."`
}

// Redis holds the connection to the boards' Redis.
type Redis struct {
	Mode             string   `koanf:"mode" validate:"oneof=single sentinel cluster" doc:"single: one server. sentinel: a master and replicas watched by Sentinels. cluster: Redis Cluster."`
	Addrs            []string `koanf:"addrs" validate:"min=1,dive,hostport" doc:"host:port of the server, or of the Sentinels or cluster nodes to ask first."`
	MasterName       string   `koanf:"master_name" example:"stepboard" doc:"Mode sentinel, required: the master's name."`
	Username         string   `koanf:"username" doc:"ACL user. Empty: the default user."`
	Password         string   `koanf:"password" secret:"true" example:"change-me" doc:"Password."`
	SentinelUsername string   `koanf:"sentinel_username" doc:"Mode sentinel: ACL user of the Sentinels."`
	SentinelPassword string   `koanf:"sentinel_password" secret:"true" example:"change-me" doc:"Mode sentinel: password of the Sentinels."`
	TLS              bool     `koanf:"tls" doc:"Connect with TLS. The system's certificates are trusted."`
	KeyPrefix        string   `koanf:"key_prefix" validate:"max=40,excludesall={}" doc:"Prefix of every key, to share a server; at most 40 characters, without { and }."`
}

// Postgres holds the connection to Postgres.
type Postgres struct {
	DSN         string `koanf:"dsn" secret:"dsn" example:"postgres://stepboard:change-me@127.0.0.1:5432/stepboard" doc:"Connection string, as a URL or as keywords (host=db user=stepboard dbname=stepboard)."`
	MaxConns    int    `koanf:"max_conns" validate:"min=5,max=1000" doc:"Most connections of one process, 5 to 1000, of which each kind of work gets a fifth. The archive, leases and probes take up to 22 more. The sum over all processes must stay below the server's max_connections."`
	AutoMigrate bool   `koanf:"auto_migrate" doc:"Let serve, archive and import bring the schema up to date. Otherwise stepboard migrate up must run first."`
}

// Auth holds the keys that tokens are checked with. serve requires a secret or a
// JWKS.
type Auth struct {
	HS256Secret         string        `koanf:"hs256_secret" validate:"omitempty,minbytes=32" secret:"true" example:"change-me" doc:"Secret of HS256 tokens, 32 bytes or more; openssl rand -hex 32 makes one. stepboard token signs with it."`
	HS256PreviousSecret string        `koanf:"hs256_previous_secret" validate:"omitempty,minbytes=32" secret:"true" example:"change-me" doc:"The secret before hs256_secret, whose tokens are still accepted. docs/operations.md#tokens says how to change the secret."`
	JWKSURL             string        `koanf:"jwks_url" validate:"omitempty,http_url" secret:"url" example:"https://login.example.com/.well-known/jwks.json" doc:"Address of the public keys of RS256 (2048 bits or more), ES256 and EdDSA tokens, without user and password. Keys with another use than sig, or key_ops without verify, are skipped."`
	Issuer              string        `koanf:"issuer" doc:"The iss that tokens must have. Empty: not checked."`
	Audience            string        `koanf:"audience" doc:"The aud that tokens must have. Empty: not checked."`
	Leeway              time.Duration `koanf:"leeway" validate:"min=0,max=10m" doc:"How long a token is accepted before its iat and nbf and after its exp, 0 to 10m."`
	MaxTokenLifetime    time.Duration `koanf:"max_token_lifetime" validate:"min=0" doc:"Longest time from a token's iat (without one: from now) to its exp, such as 24h. 0: any."`
}

// SignIn holds how people sign in without an app.
type SignIn struct {
	Join       string        `koanf:"join" validate:"omitempty,oneof=invited nobody" doc:"Who may become a user: invited, whoever opens an invitation of a group or a friend, or nobody. Empty: invited where the first user has signed in by the code that serve prints, otherwise nobody."`
	SessionTTL time.Duration `koanf:"session_ttl" validate:"min=1h,max=9600h" doc:"After how long without use a device is signed out, 1h to 9600h, the longest that browsers keep a cookie."`
	NewPerDay  int64         `koanf:"new_per_day" validate:"min=0,max=1000000" doc:"Most users that invitations make in a day of UTC; further ones get 429. Of one invitation at most 60 in an hour."`
	OIDC       []OIDC        `koanf:"oidc" validate:"max=10,unique=Name,dive" doc:"OpenID Connect providers by which people sign in. They need http.public_url, and auth.hs256_secret or a data folder. docs/operations.md#signing-in-by-openid-connect describes them."`
}

// OIDC is an OpenID Connect provider.
type OIDC struct {
	Name         string        `koanf:"name" validate:"required,max=32,slug" doc:"Name in addresses, of small letters, digits and hyphens. The provider sends people back to {http.public_url}/v1/sign-in/{name}/callback."`
	Title        string        `koanf:"title" validate:"max=64" doc:"Name for people, on the page. Empty: the name."`
	Issuer       string        `koanf:"issuer" validate:"required,http_url" doc:"The provider's address, exactly as its own document at /.well-known/openid-configuration has it."`
	ClientID     string        `koanf:"client_id" validate:"required" doc:"The id that the provider has given to this service."`
	ClientSecret string        `koanf:"client_secret" secret:"true" doc:"The secret that it has given. Empty: a public client, which PKCE alone protects."`
	Scopes       []string      `koanf:"scopes" doc:"Scopes besides openid, in which the claims of allow and user_claim, and a name, must be. Empty: profile."`
	Session      time.Duration `koanf:"session" validate:"omitempty,min=1h,max=9600h" doc:"How long somebody stays signed in, 1h to 9600h, however often they are here: who leaves the provider is out after that. 0: 168h."`
	UserClaim    string        `koanf:"user_claim" doc:"The claim with the id of a user, for apps whose users exist: it is read when somebody first signs in. Of one provider at most. Empty: people are users of their own."`
	Allow        []OIDCAllow   `koanf:"allow" validate:"max=20,dive" doc:"Conditions on claims, all of which must be met. Empty: everybody whom the provider knows."`
}

// OIDCAllow is a condition on a claim.
type OIDCAllow struct {
	Claim  string   `koanf:"claim" validate:"required" doc:"The claim, a text or a list of texts."`
	Values []string `koanf:"values" validate:"min=1" doc:"The values, of which it must have one."`
}

// Limits holds the rate limits of callers.
type Limits struct {
	UserPerMinute     int `koanf:"user_per_minute" validate:"min=0,max=1000000" doc:"Most calls of a user in a minute; 0: no limit."`
	AddressPerMinute  int `koanf:"address_per_minute" validate:"min=0,max=10000000" doc:"Most calls of users from an address in a minute; and, counted separately, most calls without a valid token; 0: no limit. Behind a proxy, set http.trusted_proxies; otherwise all of its callers share one limit."`
	JoinsPerMinute    int `koanf:"joins_per_minute" validate:"min=0,max=1000000" doc:"Most calls in a minute, a backend's included, that try an invite code for a user; 0: no limit."`
	LoginsPerMinute   int `koanf:"logins_per_minute" validate:"min=0,max=1000000" doc:"Most logins by WeChat, and calls of the page about signing in, from an address in a minute; 0: no limit. Behind a proxy, set http.trusted_proxies."`
	HidingsPerHour    int `koanf:"hidings_per_hour" validate:"min=0,max=1000000" doc:"How often a user may start or stop hiding from everybody in an hour; 0: no limit."`
	StreamsPerAddress int `koanf:"streams_per_address" validate:"min=0,max=1000000" doc:"Most open streams from an address, in one process; 0: no limit. A user has at most five."`
}

// Ingest holds the settings of uploads and queues.
type Ingest struct {
	Mode          string        `koanf:"mode" validate:"oneof=direct redis kafka" doc:"direct: an upload is on its board before it is answered with 200. redis, kafka: it is in a queue before it is answered with 202; a consumer applies it after flush_interval."`
	FlushInterval time.Duration `koanf:"flush_interval" validate:"min=1ms,max=1h" doc:"How long a consumer gathers updates, 1ms to 1h; it applies each user's largest."`
	BatchSize     int           `koanf:"batch_size" validate:"min=1,max=10000000" doc:"Most updates that a consumer gathers, 1 to 10000000, of about 100 bytes each."`
	Rewind        time.Duration `koanf:"rewind" validate:"min=1s,max=24h" doc:"How much of the queue is applied again after a restart or failover of the boards' Redis, 1s to 24h."`
	Redis         IngestRedis   `koanf:"redis" doc:"The queue of mode redis: a stream."`
	Kafka         IngestKafka   `koanf:"kafka" doc:"The queue of mode kafka: a topic, which must exist. docs/operations.md#queues says with which settings."`
}

// IngestRedis holds the settings of mode redis, whose queue is a stream.
type IngestRedis struct {
	Mode       string        `koanf:"mode" validate:"oneof=single sentinel cluster" doc:"As redis.mode, if addrs is set."`
	Addrs      []string      `koanf:"addrs" validate:"dive,hostport" doc:"As redis.addrs. Empty: the boards' Redis, with which the queue would be lost."`
	MasterName string        `koanf:"master_name" example:"stepboard" doc:"As redis.master_name."`
	Username   string        `koanf:"username" doc:"As redis.username."`
	Password   string        `koanf:"password" secret:"true" example:"change-me" doc:"As redis.password."`
	TLS        bool          `koanf:"tls" doc:"As redis.tls."`
	MaxUpdates int64         `koanf:"max_updates" validate:"min=1000" doc:"Most updates in the stream, at least 1000, of about 40 bytes each. While it is full, uploads get 503."`
	Keep       time.Duration `koanf:"keep" validate:"min=1s" doc:"How long applied updates stay in the stream, at least ingest.rewind."`
	ClaimAfter time.Duration `koanf:"claim_after" validate:"min=1s,max=1h" doc:"How long a consumer may hold updates before another one takes them over, 1s to 1h; more than ingest.flush_interval."`
}

// Server returns the connection to the stream's own Redis. It is meaningful only if
// Addrs is set; otherwise the stream is in the boards' Redis.
func (r IngestRedis) Server() Redis {
	return Redis{Mode: r.Mode, Addrs: r.Addrs, MasterName: r.MasterName, Username: r.Username, Password: r.Password, TLS: r.TLS}
}

// IngestKafka holds the settings of mode kafka, whose queue is a topic.
type IngestKafka struct {
	Brokers  []string `koanf:"brokers" validate:"dive,hostport" doc:"Brokers to ask first, as host:port. Required in mode kafka."`
	Topic    string   `koanf:"topic" validate:"required" doc:"The topic."`
	Group    string   `koanf:"group" validate:"required" doc:"The consumer group."`
	TLS      bool     `koanf:"tls" doc:"Connect with TLS. The system's certificates are trusted."`
	SASL     string   `koanf:"sasl" validate:"omitempty,oneof=plain scram-sha-256 scram-sha-512" doc:"plain, scram-sha-256 or scram-sha-512. Empty: no SASL."`
	Username string   `koanf:"username" doc:"SASL user."`
	Password string   `koanf:"password" secret:"true" example:"change-me" doc:"SASL password."`
}

// Board is a board's definition. It takes effect with the next bucket; the
// parameters of an existing bucket never change, but for the end of an event.
type Board struct {
	Name         string        `koanf:"name" validate:"required" doc:"1 to 40 of a-z, 0-9 and -."`
	Kind         string        `koanf:"kind" doc:"daily: the highest total that clients report for a day. event: the sum of a backend's increments from start to end. rolling: the sum of the increments of the last hours."`
	TimeZone     string        `koanf:"time_zone" doc:"IANA zone in which days begin and end. local, on daily boards: a day is a date on each user's own calendar, from UTC+14 to UTC-12."`
	OpenDays     int           `koanf:"open_days" validate:"min=0,max=30" doc:"How many days before today take uploads on a daily board, 0 to 30."`
	MaxScore     int64         `koanf:"max_score" doc:"Largest score that is accepted. On a daily board, ties are decided to the millisecond up to 33554431, to the second up to 17179869183, to the minute up to 1099511627775, and to the hour up to 70368744177663; with 30 open_days up to 2097151, 2147483647, 137438953471 and 8796093022207; with 2 open_days and local days to the millisecond up to 16777215. A rolling board takes sums up to 8388607; for events see end. A larger value stops the start."`
	Order        string        `koanf:"order" validate:"oneof=high low" doc:"Which score is the best and ranks first: the highest, or with low the lowest, such as the fastest lap. Daily boards and events that take the best may rank low; they have no sums of several days, no review_above and no imports of hours. It can't be changed."`
	Shards       int           `koanf:"shards" doc:"Sorted sets that a bucket is split into by user, 1 to 1024."`
	Global       string        `koanf:"global" validate:"oneof=users service" doc:"Who may read top and around, which show strangers: users, or service for backends only."`
	Uploads      string        `koanf:"uploads" validate:"oneof=users service" doc:"Whose tokens may upload scores to a daily board: users, or service for backends only, because a user's token can send any total. It applies at once."`
	ChangeStream bool          `koanf:"change_stream" doc:"Write the changes of new buckets to streams in Redis while a process has rankings.max_staleness; uploads then cost Redis about half as much again. Always false on rolling boards."`
	ReviewAbove  int64         `koanf:"review_above" doc:"Scores above this, less than max_score, are listed for operators. It applies at once. 0: none are."`
	HoldAbove    int64         `koanf:"hold_above" doc:"Uploads of totals above this, less than max_score, are held until an operator has released them; daily boards with order high only. It applies at once. 0: none are."`
	Unit         string        `koanf:"unit" doc:"What the scores count, such as steps, s or coins: at most 20 characters. The page shows it, and translates steps, coins and points. It applies at once. Empty: the page guesses."`
	Start        time.Time     `koanf:"start" doc:"When an event begins, in quotes and with its offset from UTC. Required by events."`
	End          time.Time     `koanf:"end" doc:"When an event ends. It can be moved, to a later time only. A max_score of n bits leaves it 2^(53 - n) ticks, to which ties are decided: milliseconds, seconds, minutes or hours, the finest with which the event is short enough. 8388607 leaves 12 days in milliseconds, 1073741823 97 days in seconds, and 100000000000 45 days in minutes."`
	Takes        string        `koanf:"takes" validate:"omitempty,oneof=sum best" doc:"sum: increments add up. best: the best result of each user counts; daily boards always take it, and events may. Empty: best on daily boards, otherwise sum."`
	Late         time.Duration `koanf:"late" doc:"How long after it occurred an event takes an increment that says so in occurred_at, and after the event's end; at most 744h, and less than ledger.retain. 0s: it takes none that do."`
	LatestEnd    time.Time     `koanf:"latest_end" doc:"Up to when the end of an event can surely be moved, in quotes and with its offset from UTC: the tick is made long enough for it. GET /v1/admin/boards/{board} shows how far it can be moved. None: as far as the tick that end needs allows."`
	Window       int           `koanf:"window" doc:"Hours that count on a rolling board, the current hour included, 1 to 168. 0: 24."`
}

// Archive holds the settings of the archive.
type Archive struct {
	RetainMonths int `koanf:"retain_months" validate:"min=0,max=1200" doc:"How many whole months after its own an archived day is kept, 0 to 1200. 0: for ever."`
}

// Ledger holds the settings of increments.
type Ledger struct {
	Retain time.Duration `koanf:"retain" validate:"min=24h" doc:"How long increments are kept, and an event_id counts once; at least 24h."`
}

// Webhook is an address that outcomes are sent to.
type Webhook struct {
	URL            string   `koanf:"url" validate:"http_url" doc:"An http or https address, without user, password, query and fragment. Redirects are not followed."`
	Secrets        []string `koanf:"secrets" validate:"min=1,max=2,dive,whsec" secret:"true" doc:"One or two secrets that requests are signed with, two while you change it: whsec_ and 24 to 64 random bytes in base64 (echo whsec_$(openssl rand -base64 32))."`
	Events         []string `koanf:"events" validate:"dive,outcome" doc:"The events that are sent. Empty: all of them."`
	PrivateNetwork bool     `koanf:"private_network" doc:"Permit addresses of this machine, of private networks and for other special purposes."`
}

// wechatURL is the address of WeChat's own API.
const wechatURL = "https://api.weixin.qq.com"

// WeChat holds the settings of mini programs.
type WeChat struct {
	Apps     []WeChatApp   `koanf:"apps" validate:"max=20,unique=AppID,dive" doc:"Mini programs. They need auth.hs256_secret, with which their people's tokens are signed, or a data folder, which has one."`
	APIURL   string        `koanf:"api_url" validate:"http_url" doc:"Address of WeChat's API. The secrets of mini programs and the codes of their people are sent there."`
	TokenTTL time.Duration `koanf:"token_ttl" validate:"min=1m,max=720h" doc:"How long the token of a login is valid, 1m to 720h, and at most auth.max_token_lifetime."`
}

// WeChatApp is a mini program.
type WeChatApp struct {
	AppID  string `koanf:"appid" validate:"required,max=64,printascii,excludes= " doc:"The AppID that WeChat has given to the mini program, such as wx0123456789abcdef."`
	Secret string `koanf:"secret" validate:"required" secret:"true" doc:"Its AppSecret."`
	Board  string `koanf:"board" validate:"required" doc:"A daily board of the settings with time_zone Asia/Shanghai and order high, which takes the steps. uploads service keeps users' tokens from sending other totals."`
}

// Push holds the settings of Web Push.
type Push struct {
	Subject        string `koanf:"subject" validate:"omitempty,contact" example:"mailto:ops@example.com" doc:"Address that push services may write to, mailto: or https:, such as mailto:ops@example.com. Empty: no Web Push. docs/operations.md#web-push says what it needs."`
	PrivateNetwork bool   `koanf:"private_network" doc:"Permit push services without TLS, on other ports, and on this machine and private networks. Every user can name their addresses."`
}

// Passed holds how often it is looked who has passed whom.
type Passed struct {
	Every time.Duration `koanf:"every" validate:"omitempty,min=1s,max=1h" doc:"How often the rankings of those who want this notice are compared, 1s to 1h. 0s: nobody gets one."`
}

// Jobs holds the schedules of recurring work.
type Jobs struct {
	ArchiveCron string `koanf:"archive_cron" doc:"When days are archived, in the zone of each board, or in UTC if its days are local: minute, hour, day of the month, month, day of the week. A missed run is made up for."`
	DigestCron  string `koanf:"digest_cron" doc:"When the webhook digest.ready is sent, such as 30 20 * * *, as in jobs.archive_cron; once a day. Empty: never."`
}

// Clock holds the shift of the service's time.
type Clock struct {
	Offset time.Duration `koanf:"offset" doc:"Added to the clock, for replays and trials, such as -36h. Tokens are checked by the real time."`
}

// Log holds the settings of the log, which goes to standard error.
type Log struct {
	Level  string `koanf:"level" validate:"oneof=debug info warn error" doc:"debug, info, warn or error."`
	Format string `koanf:"format" validate:"oneof=json text" doc:"json or text."`
}

// Traces holds the settings of OpenTelemetry traces, which are off by default.
type Traces struct {
	Endpoint string `koanf:"endpoint" validate:"omitempty,http_url" doc:"Address of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318; /v1/traces is added. OTEL_EXPORTER_OTLP_HEADERS=name=value adds headers. Empty: nothing is traced."`
	// Ratio is 0.01 by default, which is enough for a service under load.
	Ratio float64 `koanf:"ratio" validate:"gt=0,max=1" doc:"Share of the calls that are traced, more than 0 and at most 1."`
}

// Friends holds the limits of friend requests, and how far back friends see each other.
type Friends struct {
	MaxPending     int `koanf:"max_pending" validate:"min=1,max=10000" doc:"Most unanswered friend requests of a user, 1 to 10000. Further ones get 429."`
	RequestsPerDay int `koanf:"requests_per_day" validate:"min=1,max=10000" doc:"Most friend requests that a user sends in 24 hours from the first on, 1 to 10000, withdrawn ones included. Further ones get 429."`
	HistoryDays    int `koanf:"history_days" validate:"min=0,max=36500" doc:"For how many days before their friendship began friends see each other's archived scores, 0 to 36500. Days that are still in Redis are always shown."`
}

// Rankings configures how rankings are read.
type Rankings struct {
	MaxStaleness time.Duration `koanf:"max_staleness" validate:"omitempty,min=100ms,max=10s" doc:"How old a ranking may be, 100ms to 10s. A process then has near caches of the current buckets of boards with change_stream, and asks Redis only where one may be older. 0s: it always asks Redis; required without Redis, where rankings are never stale."`
	Memory       Size          `koanf:"memory" validate:"min=1000000" doc:"Memory of a process for near caches, at least 1 MB. A bucket takes 8 bytes for each user of the app, in steps of 524 KB; without room it is read from Redis. Sets of friends and members take what is left, about 3 bytes for each person; without Redis, all of it. Standings of competitions take up to an eighth as much beside it."`
	OrderMemory  Size          `koanf:"order_memory" doc:"Memory of a process for the order of near caches, from which it answers top, around and me: 19 bytes for each user with a score. A bucket without room, or all with 0, are read from Redis."`
}

// Cache configures the copies of sets.
type Cache struct {
	SetsTTL time.Duration `koanf:"sets_ttl" validate:"min=1m,max=24h" doc:"How long a set is kept after it was loaded, 1m to 24h, and so how long it can be wrong after a failover of Redis lost its removal. A ranking whose sets are missing costs about twice as much."`
}

// Directory configures the directory of users.
type Directory struct {
	Memory Size `koanf:"memory" validate:"min=1000000" doc:"Memory of a process for users, at least 1 MB. 128 MB hold about a million, or 900000 if their ids are UUIDs. Others are read from Redis, or without it from SQL."`
}

// Default returns the settings used when nothing is configured.
func Default() Config {
	return Config{
		Backup:   Backup{Interval: time.Second, Retain: 7 * 24 * time.Hour, MaxLag: GB},
		HTTP:     HTTP{Addr: "127.0.0.1:8080", MaxConnections: 10_000, ACMEHosts: []string{}, TrustedProxies: []string{}, CORSOrigins: []string{}},
		Redis:    Redis{Mode: "single", Addrs: []string{"127.0.0.1:6379"}},
		Postgres: Postgres{MaxConns: 25},
		Auth:     Auth{Leeway: 30 * time.Second},
		Limits:   Limits{UserPerMinute: 600, AddressPerMinute: 6000, JoinsPerMinute: 10, LoginsPerMinute: 600, HidingsPerHour: 20, StreamsPerAddress: 100},
		Ingest: Ingest{
			Mode: "direct", FlushInterval: time.Second, BatchSize: 100_000, Rewind: 10 * time.Minute,
			Redis: IngestRedis{Mode: "single", Addrs: []string{}, MaxUpdates: 50_000_000, Keep: time.Hour, ClaimAfter: time.Minute},
			Kafka: IngestKafka{Brokers: []string{}, Topic: "stepboard-updates", Group: "stepboard"},
		},
		Rankings:       Rankings{Memory: 512 * MB, OrderMemory: 128 * MB},
		Cache:          Cache{SetsTTL: time.Hour},
		Directory:      Directory{Memory: 128 * MB},
		SignIn:         SignIn{SessionTTL: 9600 * time.Hour, NewPerDay: 500, OIDC: []OIDC{}},
		Friends:        Friends{MaxPending: 200, RequestsPerDay: 50, HistoryDays: 31},
		Ledger:         Ledger{Retain: 400 * 24 * time.Hour},
		Boards:         []Board{defaultBoard("steps")},
		Webhooks:       []Webhook{},
		WeChat:         WeChat{Apps: []WeChatApp{}, APIURL: wechatURL, TokenTTL: 24 * time.Hour},
		HotDays:        3,
		StartupTimeout: 30 * time.Second,
		Passed:         Passed{Every: 10 * time.Minute},
		Jobs:           Jobs{ArchiveCron: "30 3 * * *"},
		Log:            Log{Level: "info", Format: "json"},
		Traces:         Traces{Ratio: 0.01},
	}
}

// FolderBoard returns the board of a new data folder whose settings have none. Its days are those of a time zone. Who
// signs up by an invitation does not see strangers on it.
func FolderBoard(zone string) Board {
	b := defaultBoard("steps")
	b.TimeZone, b.Global = zone, string(models.AudienceService)
	return b
}

// defaultBoard returns the defaults of a board in the file.
func defaultBoard(name string) Board {
	return Board{Name: name, Kind: "daily", TimeZone: "Asia/Shanghai", OpenDays: models.DefaultOpenDays, MaxScore: 100_000, Order: "high", Shards: 1, Global: "users", Uploads: "users", ChangeStream: true}
}
