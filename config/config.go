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
	HTTP           HTTP          `koanf:"http" doc:"Where the API listens."`
	Redis          Redis         `koanf:"redis" doc:"Redis holds the boards of the last days. Its maxmemory-policy must be noeviction, or serve refuses to start."`
	Postgres       Postgres      `koanf:"postgres" doc:"Postgres holds everything that must outlive Redis."`
	Auth           Auth          `koanf:"auth" doc:"Which tokens are accepted. serve requires a secret or a JWKS, and accepts the tokens of both."`
	Limits         Limits        `koanf:"limits" doc:"How often somebody may call. All processes count calls together, in the boards' Redis. A process asks Redis only about callers who have used a tenth of their limit there within a minute. Calls over a limit get 429 with Retry-After. If Redis does not answer in time, calls pass uncounted. Tokens of scope service or admin have no limit."`
	Ingest         Ingest        `koanf:"ingest" doc:"How uploads reach the boards."`
	Boards         []Board       `koanf:"boards" validate:"min=1,unique=Name,dive" doc:"A list of boards, each with a name of its own."`
	Rankings       Rankings      `koanf:"rankings" doc:"How rankings among friends are read. docs/operations.md describes it."`
	Cache          Cache         `koanf:"cache" doc:"Copies in Redis of sets of friends, of members of groups, and of those who are not shown to a user."`
	Directory      Directory     `koanf:"directory" doc:"The directory of users: user ids, nicknames and avatars."`
	Friends        Friends       `koanf:"friends" doc:"Friend requests, and the past days that friends show each other."`
	HotDays        int           `koanf:"hot_days" validate:"min=2,max=30" doc:"For how many days after its own a day stays in Redis, 2 to 30. On a board with more open_days it stays a day longer than it takes uploads. A change takes effect with the next day that is made."`
	Archive        Archive       `koanf:"archive" doc:"Days that have left Redis are in Postgres."`
	Ledger         Ledger        `koanf:"ledger" doc:"Increments of event and rolling boards are in Postgres, each with its event_id."`
	Webhooks       []Webhook     `koanf:"webhooks" validate:"max=20,unique=URL,dive" doc:"A list of addresses of the app's backend that hear of outcomes, each with a url of its own. docs/webhooks.md describes them."`
	Jobs           Jobs          `koanf:"jobs" doc:"Recurring work, done by one process at a time."`
	Clock          Clock         `koanf:"clock" doc:"The clock of the service."`
	StartupTimeout time.Duration `koanf:"startup_timeout" validate:"min=0,max=1h" doc:"How long serve waits at its start for Redis, Postgres and the queue to answer, 0s to 1h."`
	Log            Log           `koanf:"log" doc:"The log, which goes to standard error."`
	Traces         Traces        `koanf:"traces" doc:"OpenTelemetry traces, which show what a call has waited for. docs/operations.md describes them."`
}

// HTTP holds the settings of the listeners.
type HTTP struct {
	Addr           string `koanf:"addr" validate:"hostport" doc:"Address to listen on, as host:port. Without a host (:8080) it is every address of the machine."`
	BasePath       string `koanf:"base_path" validate:"omitempty,basepath" example:"/steps" doc:"Path of the service's public address, such as /steps for https://example.com/steps/. Requests may arrive with it or without. Its segments have letters, digits, dots, hyphens, underscores and tildes. Empty: the service has an origin of its own."`
	PprofAddr      string `koanf:"pprof_addr" validate:"omitempty,loopback" doc:"Address for profiles (/debug/pprof/, for go tool pprof). It must be an address of this machine alone, such as 127.0.0.1:6060. Empty: no profiles."`
	MetricsAddr    string `koanf:"metrics_addr" validate:"omitempty,hostport" doc:"Address for /metrics alone, as host:port, which is then no longer served on http.addr. Let only Prometheus reach it. Empty: /metrics is served on http.addr."`
	MaxConnections int    `koanf:"max_connections" validate:"min=1,max=1000000" doc:"Most open connections to http.addr at a time, 1 to 1000000, besides 16 for probes. Above it, an idle connection of the address with most idle ones is closed for each new one; if none is idle, new ones may only probe, and other calls on them get 503. Idle connections of 127.0.0.1, ::1 and http.trusted_proxies are never closed for others. Each stream is a connection; the process may need a larger limit of open files."`
	// CORSOrigins are compared with the Origin of a call, whatever the case.
	CORSOrigins []string `koanf:"cors_origins" validate:"dive,origin" doc:"Origins of pages that may call the API from a browser, such as https://app.example.com or capacitor://localhost, without a path. *: every page. Calls need a token in a header and never a cookie, so a page can do nothing in the name of its visitor without the visitor's token. Empty: only pages of the service's own origin."`
	// TrustedProxies are the only senders whose X-Forwarded-For is read.
	TrustedProxies []string `koanf:"trusted_proxies" validate:"dive,cidr|ip" doc:"Addresses or networks (10.0.0.0/8) of the proxies in front of the service. Only their X-Forwarded-For is read, to find the caller's address. limits.address_per_minute needs this behind a proxy."`
}

// Redis holds the connection to the boards' Redis.
type Redis struct {
	Mode             string   `koanf:"mode" validate:"oneof=single sentinel cluster" doc:"single: one server. sentinel: a master and its replicas, which Sentinels watch. cluster: Redis Cluster."`
	Addrs            []string `koanf:"addrs" validate:"min=1,dive,hostport" doc:"host:port of the server, or of the Sentinels or cluster nodes to ask first."`
	MasterName       string   `koanf:"master_name" example:"stepboard" doc:"Mode sentinel: the master's name. Required in this mode."`
	Username         string   `koanf:"username" doc:"ACL user. Empty: the default user."`
	Password         string   `koanf:"password" secret:"true" example:"change-me" doc:"Password. Empty: none."`
	SentinelUsername string   `koanf:"sentinel_username" doc:"Mode sentinel: ACL user of the Sentinels."`
	SentinelPassword string   `koanf:"sentinel_password" secret:"true" example:"change-me" doc:"Mode sentinel: password of the Sentinels. Empty: none."`
	TLS              bool     `koanf:"tls" doc:"Connect with TLS. The certificate is checked against the system's."`
	KeyPrefix        string   `koanf:"key_prefix" validate:"max=40,excludesall={}" doc:"Prefix of every key, to share a server with other programs. At most 40 characters, without { and }."`
}

// Postgres holds the connection to Postgres.
type Postgres struct {
	DSN         string `koanf:"dsn" secret:"dsn" example:"postgres://stepboard:change-me@127.0.0.1:5432/stepboard" doc:"Connection string, as a URL or as keywords (host=db user=stepboard dbname=stepboard). Required by every command that uses Postgres, serve included."`
	MaxConns    int    `koanf:"max_conns" validate:"min=5,max=1000" doc:"Most connections of one process, 5 to 1000. Increments, friends, lookups, reports and jobs get a fifth each. The archive, leases and probes take up to twelve more. The sum over all processes must stay below the server's max_connections."`
	AutoMigrate bool   `koanf:"auto_migrate" doc:"Let serve, archive and import bring the schema up to date. Otherwise they refuse a schema that is behind, and stepboard migrate up must run first."`
}

// Auth holds the keys that tokens are checked with. serve requires a secret or a
// JWKS.
type Auth struct {
	HS256Secret         string        `koanf:"hs256_secret" validate:"omitempty,minbytes=32" secret:"true" example:"change-me" doc:"Secret of HS256 tokens, 32 bytes or more; openssl rand -hex 32 makes one. stepboard token signs with it."`
	HS256PreviousSecret string        `koanf:"hs256_previous_secret" validate:"omitempty,minbytes=32" secret:"true" example:"change-me" doc:"The secret before hs256_secret, whose tokens are still accepted. To change the secret without refusing anybody: move the old one here and set a new one, restart every process, let the backend sign with the new one, and remove the old one when its last token has expired."`
	JWKSURL             string        `koanf:"jwks_url" validate:"omitempty,http_url" secret:"url" example:"https://login.example.com/.well-known/jwks.json" doc:"Address of the public keys of RS256, ES256 and EdDSA tokens, without user and password. RSA keys need 2048 bits or more. Keys whose use is not sig, or whose key_ops lack verify, are not used."`
	Issuer              string        `koanf:"issuer" doc:"The iss that tokens must have. Empty: not checked."`
	Audience            string        `koanf:"audience" doc:"The aud that tokens must have. Empty: not checked."`
	Leeway              time.Duration `koanf:"leeway" validate:"min=0,max=10m" doc:"How far the clock of an issuer may differ from this one's: a token is accepted for so long before its nbf and after its exp. 0 to 10m."`
	MaxTokenLifetime    time.Duration `koanf:"max_token_lifetime" validate:"min=0" doc:"Longest time from a token's iat to its exp, such as 24h. A token without iat counts from now. A token that is valid for longer is refused. 0: any."`
}

// Limits holds the rate limits of callers.
type Limits struct {
	UserPerMinute     int `koanf:"user_per_minute" validate:"min=0,max=1000000" doc:"Most calls of a user in a minute, at once or one by one. 0: no limit. 600 is far above what a person's phone needs."`
	AddressPerMinute  int `koanf:"address_per_minute" validate:"min=0,max=10000000" doc:"Most calls of users from an address in a minute; and, counted apart, most calls without a good token. 0: no limit. Many phones share an address, so do not set it much below 6000. Behind a proxy, set http.trusted_proxies; otherwise all of its callers share one limit."`
	JoinsPerMinute    int `koanf:"joins_per_minute" validate:"min=0,max=1000000" doc:"Most calls of a user in a minute that join a group by its invite code, so that codes can't be guessed. 0: no limit. Calls of a backend for the user count, too."`
	HidingsPerHour    int `koanf:"hidings_per_hour" validate:"min=0,max=1000000" doc:"How often a user may begin and end to hide from everybody in an hour: each time, the lists of all their friends are read anew. 0: no limit."`
	StreamsPerAddress int `koanf:"streams_per_address" validate:"min=0,max=1000000" doc:"Most open streams of rankings from an address, in one process. 0: no limit. A user has at most five. Tokens of scope service and admin do not count. Behind a proxy, set http.trusted_proxies."`
}

// Ingest holds the settings of uploads and queues.
type Ingest struct {
	Mode          string        `koanf:"mode" validate:"oneof=direct redis kafka" doc:"direct: an upload is on its board before it is answered with 200. redis, kafka: an upload is in a queue before it is answered with 202, and a consumer applies it. A queue absorbs peaks and outlives the boards' Redis; boards lag by flush_interval."`
	FlushInterval time.Duration `koanf:"flush_interval" validate:"min=1ms,max=1h" doc:"How long a consumer gathers updates before it raises the boards, 1ms to 1h. Of several updates of a user only the largest is applied."`
	BatchSize     int           `koanf:"batch_size" validate:"min=1,max=10000000" doc:"Most updates that a consumer gathers, 1 to 10000000, of about 100 bytes each."`
	Rewind        time.Duration `koanf:"rewind" validate:"min=1s,max=24h" doc:"How much of the queue is applied again after the boards' Redis has restarted or failed over, because it may have forgotten its last writes. 1s to 24h."`
	Redis         IngestRedis   `koanf:"redis" doc:"The queue of mode redis: a stream."`
	Kafka         IngestKafka   `koanf:"kafka" doc:"The queue of mode kafka: a topic. It must exist, must not be compacted, and must keep its records for hot_days + 2 days or longer, or 3 days more than the most open_days of a board, if that is more."`
}

// IngestRedis holds the settings of mode redis, whose queue is a stream.
type IngestRedis struct {
	Mode       string        `koanf:"mode" validate:"oneof=single sentinel cluster" doc:"As redis.mode, if addrs is set."`
	Addrs      []string      `koanf:"addrs" validate:"dive,hostport" doc:"As redis.addrs. Empty: the boards' own Redis. On a server of its own the queue outlives the boards' server."`
	MasterName string        `koanf:"master_name" example:"stepboard" doc:"As redis.master_name."`
	Username   string        `koanf:"username" doc:"ACL user. Empty: the default user."`
	Password   string        `koanf:"password" secret:"true" example:"change-me" doc:"Password. Empty: none."`
	TLS        bool          `koanf:"tls" doc:"Connect with TLS. The certificate is checked against the system's."`
	MaxUpdates int64         `koanf:"max_updates" validate:"min=1000" doc:"Most updates in the stream, at least 1000, of about 40 bytes each. While it is full, uploads get 503."`
	Keep       time.Duration `koanf:"keep" validate:"min=1s" doc:"How long applied updates stay in the stream, at least ingest.rewind."`
	ClaimAfter time.Duration `koanf:"claim_after" validate:"min=1s,max=1h" doc:"How long a consumer may hold updates before another one takes them over, 1s to 1h. Longer than ingest.flush_interval."`
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
	TLS      bool     `koanf:"tls" doc:"Connect with TLS. The certificate is checked against the system's."`
	SASL     string   `koanf:"sasl" validate:"omitempty,oneof=plain scram-sha-256 scram-sha-512" doc:"plain, scram-sha-256 or scram-sha-512. Empty: no SASL."`
	Username string   `koanf:"username" doc:"SASL user."`
	Password string   `koanf:"password" secret:"true" example:"change-me" doc:"SASL password."`
}

// Board is a board's definition. It takes effect with the next bucket; the
// parameters of an existing bucket never change.
type Board struct {
	Name         string    `koanf:"name" validate:"required" doc:"1 to 40 of a-z, 0-9 and -."`
	Kind         string    `koanf:"kind" doc:"daily: clients report their total for a day, and the highest counts. event: a backend sends increments, which add up from start to end. rolling: the increments of the last hours add up."`
	TimeZone     string    `koanf:"time_zone" doc:"IANA zone in which days begin and end, or local: a day of a daily board is then a date on each user's own calendar, from UTC+14 to UTC-12, and schedules use UTC."`
	OpenDays     int       `koanf:"open_days" validate:"min=0,max=30" doc:"How many days before today take uploads on a daily board, 0 to 30. A day stays in Redis for at least a day longer. Other boards have none."`
	MaxScore     int64     `koanf:"max_score" doc:"Largest score that is accepted. On a daily board ties are decided to the millisecond up to 33554431, and to the second up to 17179869183; with 30 open days up to 2097151 and 2147483647; to the millisecond up to 16777215 with 2 open days and local days. An event of 92 days takes up to 1073741823, to the second, and a shorter one more. A rolling board takes sums up to 8388607. A larger value stops the start."`
	Shards       int       `koanf:"shards" doc:"Sorted sets that a bucket is split into by user, 1 to 1024."`
	Global       string    `koanf:"global" validate:"oneof=users service" doc:"Who may read top and around, the lists that show strangers: users, or service for backends only."`
	ChangeStream bool      `koanf:"change_stream" doc:"Write the changes of new buckets to streams in Redis, from which processes with rankings.max_staleness keep a copy. As long as none does, nothing is written; otherwise uploads cost Redis about half as much again. Not for rolling boards."`
	ReviewAbove  int64     `koanf:"review_above" doc:"Scores above this are listed for operators to look at, less than max_score. It applies at once, also to days that exist. 0: none are listed."`
	Start        time.Time `koanf:"start" doc:"When an event begins, in quotes and with its offset from UTC. Required by events."`
	End          time.Time `koanf:"end" doc:"When an event ends. How long it may last depends on max_score: a largest score of n bits leaves 2^(53 - n) seconds, which is 97 days for 1073741823, 34 years for 8388607 and centuries for 100000. Ties are decided to the millisecond if the event lasts less than a thousandth of that, and otherwise to the second."`
	Window       int       `koanf:"window" doc:"Hours that count on a rolling board, the current hour included, 1 to 168. 0: 24."`
}

// Archive holds the settings of the archive.
type Archive struct {
	RetainMonths int `koanf:"retain_months" validate:"min=0,max=1200" doc:"For how many whole months after its own an archived day is kept, 0 to 1200. Older months are dropped. 0: for ever."`
}

// Ledger holds the settings of increments.
type Ledger struct {
	Retain time.Duration `koanf:"retain" validate:"min=24h" doc:"How long increments are kept, at least 24h. For that long the same event_id counts once."`
}

// Webhook is an address that outcomes are sent to.
type Webhook struct {
	URL            string   `koanf:"url" validate:"http_url" doc:"An http or https address, without user, password, query and fragment. Redirects are not followed."`
	Secrets        []string `koanf:"secrets" validate:"min=1,max=2,dive,whsec" secret:"true" doc:"One or two secrets that requests are signed with: whsec_ and 24 to 64 random bytes in base64, such as from echo whsec_$(openssl rand -base64 32). To change a secret, list the new one and the old one, let the receiver use the new one, and remove the old one."`
	Events         []string `koanf:"events" validate:"dive,outcome" doc:"The events that are sent. Empty: all of them."`
	PrivateNetwork bool     `koanf:"private_network" doc:"Permit addresses of this machine, of private networks and for other special purposes. Otherwise a url that leads to one is not called."`
}

// Jobs holds the schedules of recurring work.
type Jobs struct {
	ArchiveCron string `koanf:"archive_cron" doc:"When days are archived, in the zone of each board, or in UTC if its days are local: minute, hour, day of the month, month, day of the week. A run that was missed is made up for."`
	DigestCron  string `koanf:"digest_cron" doc:"When the webhook digest.ready says how everybody's day goes, such as 30 20 * * * for half past eight in the evening, in the zone of each board, or in UTC if its days are local. Of several times in a day the first one counts. Empty: never."`
}

// Clock holds the shift of the service's time.
type Clock struct {
	Offset time.Duration `koanf:"offset" doc:"Added to the clock, for replays and trials, such as -36h. Tokens are checked against the real time."`
}

// Log holds the settings of the log, which goes to standard error.
type Log struct {
	Level  string `koanf:"level" validate:"oneof=debug info warn error" doc:"debug, info, warn or error."`
	Format string `koanf:"format" validate:"oneof=json text" doc:"json or text."`
}

// Traces holds the settings of OpenTelemetry traces, which are off by default.
type Traces struct {
	Endpoint string `koanf:"endpoint" validate:"omitempty,http_url" doc:"Address of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318; /v1/traces is added. Headers for it are set in OTEL_EXPORTER_OTLP_HEADERS=name=value. Empty: nothing is traced."`
	// Ratio is 0.01 by default, which is enough for a service under load.
	Ratio float64 `koanf:"ratio" validate:"gt=0,max=1" doc:"Share of the calls that are traced, more than 0 and at most 1. The caller's traceparent does not count."`
}

// Friends holds the limits of friend requests, and how far back friends see each other.
type Friends struct {
	MaxPending     int `koanf:"max_pending" validate:"min=1,max=10000" doc:"Most friend requests of a user that wait for an answer, 1 to 10000. Further ones get 429."`
	RequestsPerDay int `koanf:"requests_per_day" validate:"min=1,max=10000" doc:"Most friend requests that a user may send in the 24 hours from the first of them on, 1 to 10000, withdrawn ones included. Further ones get 429."`
	HistoryDays    int `koanf:"history_days" validate:"min=0,max=36500" doc:"For how many days before their friendship began friends see each other's archived scores, 0 to 36500. 0: none of these days. 36500: all of them. Days that are still in Redis are always shown."`
}

// Rankings configures how rankings among friends are read.
type Rankings struct {
	MaxStaleness time.Duration `koanf:"max_staleness" validate:"omitempty,min=100ms,max=10s" doc:"How old a ranking among friends may be, 100ms to 10s. A process then keeps copies of the current buckets of boards with change_stream, and asks Redis only where it can't prove that its copy is as new. 0s: it always asks Redis."`
	Memory       Size          `koanf:"memory" validate:"min=1000000" doc:"Memory of a process for these copies, such as 512 MB, at least 1 MB. A bucket takes 8 bytes for each user of the app, in steps of 524 KB. A bucket without room is read from Redis. Copies of sets of friends and members take what the buckets leave, about 3 bytes each; those used least lately go first."`
}

// Cache configures the copies of sets in Redis.
type Cache struct {
	SetsTTL time.Duration `koanf:"sets_ttl" validate:"min=1m,max=24h" doc:"How long Redis keeps a set after it was loaded, 1m to 24h. A ranking whose sets are missing reads them in Postgres, which costs about as much as the ranking itself. So long a set can also be wrong after a failover of Redis lost its removal, until the loss is noticed, and nothing is stored after a commit whose outcome is unknown."`
}

// Directory configures the directory of users.
type Directory struct {
	Memory Size `koanf:"memory" validate:"min=1000000" doc:"Memory of a process for records and row ids of users, such as 64 MB, at least 1 MB. 128 MB hold those of about a million users, or 900000 if their ids are UUIDs. Others are read from Redis, in one more round trip."`
}

// Default returns the settings used when nothing is configured.
func Default() Config {
	return Config{
		HTTP:     HTTP{Addr: "127.0.0.1:8080", MaxConnections: 10_000, TrustedProxies: []string{}, CORSOrigins: []string{}},
		Redis:    Redis{Mode: "single", Addrs: []string{"127.0.0.1:6379"}},
		Postgres: Postgres{MaxConns: 25},
		Auth:     Auth{Leeway: 30 * time.Second},
		Limits:   Limits{UserPerMinute: 600, AddressPerMinute: 6000, JoinsPerMinute: 10, HidingsPerHour: 20, StreamsPerAddress: 100},
		Ingest: Ingest{
			Mode: "direct", FlushInterval: time.Second, BatchSize: 100_000, Rewind: 10 * time.Minute,
			Redis: IngestRedis{Mode: "single", Addrs: []string{}, MaxUpdates: 50_000_000, Keep: time.Hour, ClaimAfter: time.Minute},
			Kafka: IngestKafka{Brokers: []string{}, Topic: "stepboard-updates", Group: "stepboard"},
		},
		Rankings:       Rankings{Memory: 512 * MB},
		Cache:          Cache{SetsTTL: time.Hour},
		Directory:      Directory{Memory: 128 * MB},
		Friends:        Friends{MaxPending: 200, RequestsPerDay: 50, HistoryDays: 31},
		Ledger:         Ledger{Retain: 400 * 24 * time.Hour},
		Boards:         []Board{defaultBoard("steps")},
		Webhooks:       []Webhook{},
		HotDays:        3,
		StartupTimeout: 30 * time.Second,
		Jobs:           Jobs{ArchiveCron: "30 3 * * *"},
		Log:            Log{Level: "info", Format: "json"},
		Traces:         Traces{Ratio: 0.01},
	}
}

// defaultBoard returns the defaults of a board in the file.
func defaultBoard(name string) Board {
	return Board{Name: name, Kind: "daily", TimeZone: "Asia/Shanghai", OpenDays: models.DefaultOpenDays, MaxScore: 100_000, Shards: 1, Global: "users"}
}
