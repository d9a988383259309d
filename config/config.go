// Package config holds the service's settings: defaults, overlaid by a YAML
// file, the environment and the command line, in this order, and checked as a
// whole before anything starts.
package config

import (
	"time"
)

// Config is every setting. The `doc` of a field is what --help, the README
// and `config print` say of it; `secret` fields are never printed.
type Config struct {
	HTTP     HTTP     `koanf:"http"`
	Redis    Redis    `koanf:"redis"`
	Postgres Postgres `koanf:"postgres"`
	Auth     Auth     `koanf:"auth"`
	Limits   Limits   `koanf:"limits"`
	Ingest   Ingest   `koanf:"ingest"`
	Boards   []Board  `koanf:"boards" validate:"min=1,unique=Name,dive" doc:"the boards; see the example file"`
	HotDays  int      `koanf:"hot_days" validate:"min=2,max=30" doc:"days after its own that a day stays in Redis"`
	Archive  Archive  `koanf:"archive"`
	Ledger   Ledger   `koanf:"ledger"`
	Jobs     Jobs     `koanf:"jobs"`
	Clock    Clock    `koanf:"clock"`
	Log      Log      `koanf:"log"`
	Traces   Traces   `koanf:"traces"`
}

// HTTP is where the API listens.
type HTTP struct {
	Addr      string `koanf:"addr" validate:"hostport" doc:"address to listen on"`
	PprofAddr string `koanf:"pprof_addr" validate:"omitempty,loopback" doc:"address of this machine alone on which profiles are answered; empty: nowhere"`
	// TrustedProxies are believed in what they say of others' addresses.
	TrustedProxies []string `koanf:"trusted_proxies" validate:"dive,cidr|ip" doc:"addresses or networks of proxies whose X-Forwarded-For says who calls; empty: it is not read"`
}

// Redis is where the boards are.
type Redis struct {
	Mode             string   `koanf:"mode" validate:"oneof=single sentinel cluster" doc:"single: one server; sentinel: a master and its replicas, found by Sentinels; cluster: Redis Cluster"`
	Addrs            []string `koanf:"addrs" validate:"min=1,dive,hostport" doc:"address of the server, or of Sentinels or nodes of the cluster to ask first"`
	MasterName       string   `koanf:"master_name" doc:"mode sentinel: the name by which Sentinels know the master"`
	Username         string   `koanf:"username" doc:"ACL user; empty for the default one"`
	Password         string   `koanf:"password" secret:"true" doc:"password; empty for none"`
	SentinelUsername string   `koanf:"sentinel_username" doc:"mode sentinel: ACL user of the Sentinels"`
	SentinelPassword string   `koanf:"sentinel_password" secret:"true" doc:"mode sentinel: password of the Sentinels; empty for none"`
	TLS              bool     `koanf:"tls" doc:"connect with TLS, checked against the system's certificates"`
	KeyPrefix        string   `koanf:"key_prefix" validate:"max=40,excludesall={}" doc:"put before every key, to share a server"`
}

// Postgres is where everything is that must outlive Redis.
type Postgres struct {
	DSN         string `koanf:"dsn" secret:"dsn" doc:"connection string, as a URL or as keywords; required by serve"`
	MaxConns    int    `koanf:"max_conns" validate:"min=2,max=1000" doc:"most connections of one process"`
	AutoMigrate bool   `koanf:"auto_migrate" doc:"let serve bring the schema up to date"`
}

// Auth says whose tokens are taken. serve requires a secret or a JWKS.
type Auth struct {
	HS256Secret string `koanf:"hs256_secret" validate:"omitempty,minbytes=32" secret:"true" doc:"secret of HS256 tokens, 32 bytes or more"`
	JWKSURL     string `koanf:"jwks_url" validate:"omitempty,http_url" doc:"address of the keys of RS256, ES256 and EdDSA tokens"`
	Issuer      string `koanf:"issuer" doc:"iss that a token must have; empty: not checked"`
	Audience    string `koanf:"audience" doc:"aud that a token must have; empty: not checked"`
}

// Limits is how often somebody may call.
type Limits struct {
	UserPerMinute    int `koanf:"user_per_minute" validate:"min=0,max=1000000" doc:"most calls of a user in a minute, counted by all processes together; 0: any number"`
	AddressPerMinute int `koanf:"address_per_minute" validate:"min=0,max=10000000" doc:"most calls from an address in a minute, those of backends and operators apart; 0: any number"`
}

// Ingest says how uploads reach the boards.
type Ingest struct {
	Mode          string        `koanf:"mode" validate:"oneof=direct redis kafka" doc:"direct: an upload is on its board before it is answered; redis or kafka: it is in a queue"`
	FlushInterval time.Duration `koanf:"flush_interval" validate:"min=1ms,max=1h" doc:"how long a consumer gathers updates before it raises the boards"`
	BatchSize     int           `koanf:"batch_size" validate:"min=1,max=10000000" doc:"most updates that a consumer gathers"`
	Rewind        time.Duration `koanf:"rewind" validate:"min=1s,max=24h" doc:"how much of the queue is applied again when the boards' Redis has restarted"`
	Redis         IngestRedis   `koanf:"redis"`
	Kafka         IngestKafka   `koanf:"kafka"`
}

// IngestRedis is the queue of mode redis, a stream.
type IngestRedis struct {
	Mode       string        `koanf:"mode" validate:"oneof=single sentinel cluster" doc:"as redis.mode, where addrs is set"`
	Addrs      []string      `koanf:"addrs" validate:"dive,hostport" doc:"as redis.addrs; empty: the boards' own Redis"`
	MasterName string        `koanf:"master_name" doc:"as redis.master_name"`
	Username   string        `koanf:"username" doc:"ACL user; empty for the default one"`
	Password   string        `koanf:"password" secret:"true" doc:"password; empty for none"`
	TLS        bool          `koanf:"tls" doc:"connect with TLS, checked against the system's certificates"`
	MaxUpdates int64         `koanf:"max_updates" validate:"min=1000" doc:"most updates in the stream, of some 40 bytes each; more are refused"`
	Keep       time.Duration `koanf:"keep" validate:"min=1s" doc:"how long applied updates stay in the stream, at least ingest.rewind"`
	ClaimAfter time.Duration `koanf:"claim_after" validate:"min=1s,max=1h" doc:"how long a consumer may hold updates before another takes them over"`
}

// Server is the Redis that the stream is in, where that is not the boards' own.
func (r IngestRedis) Server() Redis {
	return Redis{Mode: r.Mode, Addrs: r.Addrs, MasterName: r.MasterName, Username: r.Username, Password: r.Password, TLS: r.TLS}
}

// IngestKafka is the queue of mode kafka, a topic.
type IngestKafka struct {
	Brokers  []string `koanf:"brokers" validate:"dive,hostport" doc:"addresses of brokers to ask first; required in mode kafka"`
	Topic    string   `koanf:"topic" validate:"required" doc:"the topic; not compacted, kept for hot_days + 2 days or more"`
	Group    string   `koanf:"group" validate:"required" doc:"the consumer group"`
	TLS      bool     `koanf:"tls" doc:"connect with TLS, checked against the system's certificates"`
	SASL     string   `koanf:"sasl" validate:"omitempty,oneof=plain scram-sha-256 scram-sha-512" doc:"plain, scram-sha-256 or scram-sha-512; empty for none"`
	Username string   `koanf:"username" doc:"SASL user"`
	Password string   `koanf:"password" secret:"true" doc:"SASL password"`
}

// Board is a board's definition. It takes effect with the next bucket; what a
// bucket was made with never changes.
type Board struct {
	Name     string    `koanf:"name" validate:"required" doc:"1 to 40 of a-z, 0-9 and -"`
	Kind     string    `koanf:"kind" doc:"daily: a total for each day, the highest counts; event: increments add up from start to end; rolling: those of the last hours add up"`
	TimeZone string    `koanf:"time_zone" doc:"IANA zone that fixes the day"`
	MaxScore int64     `koanf:"max_score" doc:"largest score that is accepted"`
	Shards   int       `koanf:"shards" doc:"sorted sets that a bucket is split into"`
	Global   string    `koanf:"global" validate:"oneof=users service" doc:"who may read top and around: users or service"`
	Start    time.Time `koanf:"start" doc:"when an event starts, in RFC 3339"`
	End      time.Time `koanf:"end" doc:"when it is over, in RFC 3339"`
	Window   int       `koanf:"window" doc:"hours that count on a rolling board, the current one included, 1 to 168; 0: 24"`
}

// Archive says how long archived days are kept.
type Archive struct {
	RetainMonths int `koanf:"retain_months" validate:"min=0,max=1200" doc:"whole months that archived days are kept after their own; 0: for ever"`
}

// Ledger says how long increments are kept.
type Ledger struct {
	Retain time.Duration `koanf:"retain" validate:"min=24h" doc:"how long increments are kept, so that the same event_id counts once; at least 24h"`
}

// Jobs says when what is done again and again is done.
type Jobs struct {
	ArchiveCron string `koanf:"archive_cron" validate:"cron_spec" doc:"when days are archived, as minute, hour, day, month and weekday in the board's zone"`
}

// Clock shifts the service's time, for replays and trials.
type Clock struct {
	Offset time.Duration `koanf:"offset" doc:"added to the clock; tokens are checked against the real time"`
}

// Log says what is logged, to standard error.
type Log struct {
	Level  string `koanf:"level" validate:"oneof=debug info warn error" doc:"debug, info, warn or error"`
	Format string `koanf:"format" validate:"oneof=json text" doc:"json or text"`
}

// Traces says where traces go, and of how many calls. Off by default.
type Traces struct {
	Endpoint string `koanf:"endpoint" validate:"omitempty,http_url" doc:"address of a collector that takes traces by OTLP over HTTP, such as http://127.0.0.1:4318; empty: nothing is traced"`
	// Ratio is 0.01 by default: of a service under load that is plenty.
	Ratio float64 `koanf:"ratio" validate:"gt=0,max=1" doc:"share of the calls that are traced, more than 0 and at most 1"`
}

// Default is what holds where nothing else is said.
func Default() Config {
	return Config{
		HTTP:     HTTP{Addr: "127.0.0.1:8080", TrustedProxies: []string{}},
		Redis:    Redis{Mode: "single", Addrs: []string{"127.0.0.1:6379"}},
		Postgres: Postgres{MaxConns: 20},
		Ingest: Ingest{
			Mode: "direct", FlushInterval: time.Second, BatchSize: 100_000, Rewind: 10 * time.Minute,
			Redis: IngestRedis{Mode: "single", Addrs: []string{}, MaxUpdates: 50_000_000, Keep: time.Hour, ClaimAfter: time.Minute},
			Kafka: IngestKafka{Brokers: []string{}, Topic: "stepboard-updates", Group: "stepboard"},
		},
		Ledger:  Ledger{Retain: 400 * 24 * time.Hour},
		Boards:  []Board{defaultBoard("steps")},
		HotDays: 3,
		Jobs:    Jobs{ArchiveCron: "30 3 * * *"},
		Log:     Log{Level: "info", Format: "json"},
		Traces:  Traces{Ratio: 0.01},
	}
}

// defaultBoard is what a board of the file is where it says nothing.
func defaultBoard(name string) Board {
	return Board{Name: name, Kind: "daily", TimeZone: "Asia/Shanghai", MaxScore: 100_000, Shards: 1, Global: "users"}
}
