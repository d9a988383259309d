package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/config"
)

// settingsFile writes a settings file.
func settingsFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// given holds the input of each source.
type given struct {
	file  string
	env   []string
	flags map[string]string
}

func (g given) load(t testing.TB) (config.Config, error) {
	t.Helper()
	return config.Load(config.Sources{File: settingsFile(t, g.file), Env: g.env, Flags: g.flags})
}

func TestDefaultsApplyWhenNothingIsConfigured(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		given given
	}{
		{"an empty file", given{}},
		{"only comments", given{file: "# nothing\n"}},
		{"sections without settings", given{file: "http:\nredis: {}\nauth:\n"}},
		{"keys without a value", given{file: "http: {addr: }\nhot_days:\nclock: {offset: ~}\nredis: {addrs: }\n"}},
		{"the environment of other programs", given{env: []string{"PATH=/bin", "stepboard_hot_days=5", "XSTEPBOARD_HOT_DAYS=5", "odd"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := tt.given.load(t)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(config.Default(), cfg); diff != "" {
				t.Errorf("not the defaults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheCommandLineOverridesTheEnvironmentOverridesTheFile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		given given
		want  int
	}{
		{"nothing", given{}, 3},
		{"file", given{file: "hot_days: 4"}, 4},
		{"environment", given{env: []string{"STEPBOARD_HOT_DAYS=5"}}, 5},
		{"flag", given{flags: map[string]string{"hot_days": "6"}}, 6},
		{"file and environment", given{file: "hot_days: 4", env: []string{"STEPBOARD_HOT_DAYS=5"}}, 5},
		{"file and flag", given{file: "hot_days: 4", flags: map[string]string{"hot_days": "6"}}, 6},
		{"all", given{file: "hot_days: 4", env: []string{"STEPBOARD_HOT_DAYS=5"}, flags: map[string]string{"hot_days": "6"}}, 6},
		{"a bad value that is overlaid", given{file: "hot_days: 99", flags: map[string]string{"hot_days": "6"}}, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// A neighbour in another source stays.
			tt.given.file += "\nlog: {format: text}"
			cfg, err := tt.given.load(t)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.HotDays != tt.want || cfg.Log.Format != "text" || cfg.Log.Level != "info" {
				t.Errorf("hot_days %d, log %+v", cfg.HotDays, cfg.Log)
			}
		})
	}
}

func TestValuesOfEveryType(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		given given
		set   func(*config.Config)
	}{
		{"a number in the file", given{file: "postgres: {max_conns: 7}"}, func(c *config.Config) { c.Postgres.MaxConns = 7 }},
		{"a number as text", given{env: []string{"STEPBOARD_POSTGRES__MAX_CONNS=7"}}, func(c *config.Config) { c.Postgres.MaxConns = 7 }},
		{"a zero in front is decimal", given{env: []string{"STEPBOARD_POSTGRES__MAX_CONNS=010"}}, func(c *config.Config) { c.Postgres.MaxConns = 10 }},
		{"yes or no in the file", given{file: "redis: {tls: true}"}, func(c *config.Config) { c.Redis.TLS = true }},
		{"yes or no as text", given{flags: map[string]string{"redis.tls": "true"}}, func(c *config.Config) { c.Redis.TLS = true }},
		{"no over yes", given{file: "redis: {tls: true}", flags: map[string]string{"redis.tls": "false"}}, func(*config.Config) {}},
		{"a duration in the file", given{file: "clock: {offset: -36h}"}, func(c *config.Config) { c.Clock.Offset = -36 * time.Hour }},
		{"a duration as text", given{env: []string{"STEPBOARD_CLOCK__OFFSET=1h30m"}}, func(c *config.Config) { c.Clock.Offset = 90 * time.Minute }},
		{"a fraction in the file", given{file: "traces: {ratio: 0.25}"}, func(c *config.Config) { c.Traces.Ratio = 0.25 }},
		{"a whole number for a fraction", given{file: "traces: {ratio: 1}"}, func(c *config.Config) { c.Traces.Ratio = 1 }},
		{"a fraction as text", given{env: []string{"STEPBOARD_TRACES__RATIO=0.25"}}, func(c *config.Config) { c.Traces.Ratio = 0.25 }},
		{"a list in the file", given{file: "redis: {addrs: ['redis:1']}"}, func(c *config.Config) { c.Redis.Addrs = []string{"redis:1"} }},
		{"a list of one as text", given{file: "redis: {addrs: 'redis:1'}"}, func(c *config.Config) { c.Redis.Addrs = []string{"redis:1"} }},
		{"a list from the environment", given{env: []string{"STEPBOARD_REDIS__ADDRS=redis:1, "}}, func(c *config.Config) { c.Redis.Addrs = []string{"redis:1"} }},
		{"origins", given{env: []string{"STEPBOARD_HTTP__CORS_ORIGINS=http://localhost:5173,capacitor://localhost,https://[::1]:80,*"}}, func(c *config.Config) {
			c.HTTP.CORSOrigins = []string{"http://localhost:5173", "capacitor://localhost", "https://[::1]:80", "*"}
		}},
		{"text", given{file: `redis: {password: "0123", username: ""}`}, func(c *config.Config) { c.Redis.Password = "0123" }},
		{"text of digits", given{env: []string{"STEPBOARD_REDIS__PASSWORD=0123"}}, func(c *config.Config) { c.Redis.Password = "0123" }},
		{"text with an equals sign", given{env: []string{"STEPBOARD_REDIS__PASSWORD=a=b="}}, func(c *config.Config) { c.Redis.Password = "a=b=" }},
		{"text that is taken back", given{file: "auth: {issuer: me}", flags: map[string]string{"auth.issuer": ""}}, func(*config.Config) {}},
		{"a data folder", given{env: []string{"STEPBOARD_DATA__DIR=d", "STEPBOARD_POSTGRES__DSN="}}, func(c *config.Config) { c.Data.Dir = "d" }},
		{"copies in a bucket", given{file: "backup: {to: 's3://bucket/a/b', access_key: id, secret_key: '0123', max_lag: 64MB}\ndata: {dir: d}"}, func(c *config.Config) {
			c.Data.Dir, c.Backup.To, c.Backup.AccessKey, c.Backup.SecretKey, c.Backup.MaxLag = "d", "s3://bucket/a/b", "id", "0123", 64*config.MB
		}},
		{"copies on another disk", given{file: "backup: {to: 'file:///data/b', interval: 1m, retain: 24h}\ndata: {dir: /data/a}"}, func(c *config.Config) {
			c.Data.Dir, c.Backup.To, c.Backup.Interval, c.Backup.Retain = "/data/a", "file:///data/b", time.Minute, 24*time.Hour
		}},
		{"keys to restore from a bucket", given{env: []string{"STEPBOARD_BACKUP__ACCESS_KEY=id", "STEPBOARD_BACKUP__SECRET_KEY=0123"}}, func(c *config.Config) {
			c.Backup.AccessKey, c.Backup.SecretKey = "id", "0123"
		}},
		{"every address", given{file: "http: {addr: ':8080'}"}, func(c *config.Config) { c.HTTP.Addr = ":8080" }},
		{"an IPv6 address", given{file: "http: {addr: '[::1]:0'}"}, func(c *config.Config) { c.HTTP.Addr = "[::1]:0" }},
		{"a secret of 32 bytes", given{flags: map[string]string{"auth.hs256_secret": strings.Repeat("x", 32)}}, func(c *config.Config) { c.Auth.HS256Secret = strings.Repeat("x", 32) }},
		{"a secret of 32 bytes in 16 characters", given{flags: map[string]string{"auth.hs256_secret": strings.Repeat("ä", 16)}}, func(c *config.Config) { c.Auth.HS256Secret = strings.Repeat("ä", 16) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := tt.given.load(t)
			if err != nil {
				t.Fatal(err)
			}
			want := config.Default()
			tt.set(&want)
			if want.Data.Dir != "" {
				want.Boards = nil // those that the folder has
			}
			if diff := cmp.Diff(want, cfg); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestUnknownSettingsAreNamed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		given given
		want  string
	}{
		{"a section", given{file: "htp: {addr: ':1'}"}, "unknown setting: htp"},
		{"a key", given{file: "http: {adr: ':1'}"}, "unknown setting: http.adr"},
		{"several", given{file: "http: {adr: ':1'}\nhotdays: 3"}, "unknown setting: hotdays, http.adr"},
		{"one in capitals", given{file: "HTTP: {addr: ':1'}"}, "unknown setting: HTTP"},
		{"one in capitals beside its flag", given{file: "http: {Addr: ':1'}", flags: map[string]string{"http.addr": ":2"}}, "unknown setting: http.Addr"},
		{"one of a board", given{file: "boards: [{name: a}, {name: b, maxscore: 5}]"}, "unknown setting: boards[1].maxscore"},
		{"a variable", given{env: []string{"STEPBOARD_HTTP__ADR=:1"}}, "unknown setting in the environment: STEPBOARD_HTTP__ADR"},
		{"a variable with one underscore", given{env: []string{"STEPBOARD_HTTP_ADDR=:1"}}, "unknown setting in the environment: STEPBOARD_HTTP_ADDR"},
		{"a variable in small letters", given{env: []string{"STEPBOARD_http__addr=:1"}}, "unknown setting in the environment: STEPBOARD_http__addr"},
		{"a section as a variable", given{env: []string{"STEPBOARD_REDIS=:1"}}, "unknown setting in the environment: STEPBOARD_REDIS"},
		{"several variables", given{env: []string{"STEPBOARD_B=", "STEPBOARD_A="}}, "unknown setting in the environment: STEPBOARD_A, STEPBOARD_B"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := tt.given.load(t); err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

func TestBadValuesNameTheKey(t *testing.T) {
	t.Parallel()
	tests := []struct{ file, want string }{
		{"http: 5", "http: must hold settings"},
		{"http: []", "http: must hold settings"},
		{"http: {addr: 8080}", "http.addr: must be text"},
		{"http: {addr: localhost}", `http.addr: must be host:port, not "localhost"`},
		{"http: {addr: 'localhost:http'}", "http.addr: must be host:port"},
		{"http: {addr: ':65536'}", "http.addr: must be host:port"},
		{"http: {addr: ':-1'}", "http.addr: must be host:port"},
		{"http: {addr: ''}", "http.addr: must be host:port"},
		{"http: {pprof_addr: ':6060'}", "http.pprof_addr: must be an address of this machine alone"},
		{"http: {pprof_addr: '10.0.0.1:6060'}", "http.pprof_addr: must be an address of this machine alone"},
		{"push: {subject: ops@example.com}", "push.subject: must be an address such as mailto:ops@example.com"},
		{"push: {subject: 'mailto:ops@localhost'}", "push.subject: must be an address"},
		{"push: {subject: 'https://nas.local/contact'}", "push.subject: must be an address"},
		{"push: {subject: 'mailto:Ops <ops@example.com>'}", "push.subject: must be an address"},
		{"push: {subject: 'http://example.com/contact'}", "push.subject: must be an address"},
		{"push: {subject: 'https://ops@example.com/contact'}", "push.subject: must be an address"},
		{"http: {base_path: steps}", "http.base_path: must begin with /"},
		{"http: {base_path: /steps/}", "http.base_path: "},
		{"http: {base_path: /}", "http.base_path: "},
		{"http: {base_path: //steps}", "http.base_path: "},
		{"http: {base_path: /a/../b}", "http.base_path: "},
		{"http: {base_path: /./b}", "http.base_path: "},
		{"http: {base_path: /a%20b}", "http.base_path: "},
		{"http: {base_path: 'https://example.com/steps'}", "http.base_path: "},
		{"http: {cors_origins: [app.example.com]}", "http.cors_origins[0]: must be an origin"},
		{"http: {cors_origins: ['https://app.example.com/']}", "http.cors_origins[0]: "},
		{"http: {cors_origins: ['https://*.example.com']}", "http.cors_origins[0]: "},
		{"http: {cors_origins: ['https://a@app.example.com']}", "http.cors_origins[0]: "},
		{"http: {cors_origins: ['https://App.example.com']}", "http.cors_origins[0]: "},
		{"http: {cors_origins: ['https://app.example.com:443']}", "http.cors_origins[0]: "},
		{"http: {cors_origins: ['https://:1']}", "http.cors_origins[0]: "},
		{"http: {cors_origins: [null, 'null']}", "http.cors_origins[0]: "},
		{"http: {trusted_proxies: [nix]}", "http.trusted_proxies[0]: "},
		{"http: {tls_cert: a.pem}", "http.tls_key: must be set beside http.tls_cert"},
		{"http: {tls_key: a.pem}", "http.tls_cert: must be set beside http.tls_key"},
		{"http: {tls_cert: a.pem, tls_key: b.pem, acme_hosts: [a.example.com]}\ndata: {dir: d}", "http.acme_hosts: certificates are obtained, or"},
		{"http: {acme_hosts: [a.example.com]}", "http.acme_hosts: needs data.dir"},
		{"http: {acme_directory: 'https://ca.example.com/'}", "http.acme_directory: needs http.acme_hosts"},
		{"backup: {to: 's3://bucket/prefix'}", "backup.to: needs data.dir"},
		{"backup: {to: 's3://id:hunter22@bucket/prefix'}\ndata: {dir: d}", "backup.to: must have no keys in it: set backup.access_key"},
		{"backup: {to: 's3://id@bucket'}\ndata: {dir: d}", "backup.to: must have no keys in it"},
		{"backup: {to: 's3://bucket/?secret=hunter22'}\ndata: {dir: d}", "backup.to: must be s3://bucket/prefix, or file://"},
		{"backup: {to: 's3://bucket#hunter22'}\ndata: {dir: d}", "backup.to: must be s3://"},
		{"backup: {to: 's3:///prefix'}\ndata: {dir: d}", "backup.to: must be s3://"},
		{"backup: {to: 's3://Bucket'}\ndata: {dir: d}", "backup.to: must be s3://"},
		{"backup: {to: 's3://bucket:9000'}\ndata: {dir: d}", "backup.to: must be s3://"},
		{"backup: {to: 's3:bucket'}\ndata: {dir: d}", "backup.to: must be s3://"},
		{"backup: {to: bucket}\ndata: {dir: d}", "backup.to: must be s3://"},
		{"backup: {to: /mnt/backup}\ndata: {dir: d}", "backup.to: must be s3://"},
		{"backup: {to: 'https://bucket.example.com/'}\ndata: {dir: d}", "backup.to: must be s3://"},
		{"backup: {to: 'file://mnt/backup'}\ndata: {dir: d}", "backup.to: must be s3://"},
		{"backup: {to: 'file:///'}\ndata: {dir: d}", "backup.to: must be s3://"},
		{"backup: {to: 'file:///..'}\ndata: {dir: d}", "backup.to: must be s3://"},
		{"backup: {to: 'file:///data/copies'}\ndata: {dir: /data}", "backup.to: is in the data folder"},
		{"backup: {to: 'file:///data/'}\ndata: {dir: /data}", "backup.to: is in the data folder"},
		{"backup: {to: 'file:///mnt/../data/x'}\ndata: {dir: /data/}", "backup.to: is in the data folder"},
		{"backup: {to: 'file:///mnt', region: a}\ndata: {dir: d}", "backup.region: is for S3, but backup.to is a folder"},
		{"backup: {to: 'file:///mnt', access_key: a, secret_key: hunter22}\ndata: {dir: d}", "backup.access_key: is for S3"},
		{"backup: {access_key: a}", "backup.access_key: is set beside backup.secret_key"},
		{"backup: {secret_key: hunter22}", "backup.access_key: is set beside backup.secret_key"},
		{"backup: {endpoint: minio.example.com}", "backup.endpoint: must be an http or https address"},
		{"backup: {endpoint: 'https://id:hunter22@minio.example.com'}", "backup.endpoint: must have no user"},
		{"backup: {endpoint: 'https://minio.example.com/bucket'}", "backup.endpoint: must have no user, path"},
		{"backup: {interval: 99ms}", "backup.interval: must be at least 100ms, not 99ms"},
		{"backup: {interval: 2m}", "backup.interval: must be at most 1m"},
		{"backup: {retain: 23h}", "backup.retain: must be at least 24h"},
		{"backup: {retain: 8761h}", "backup.retain: must be at most 8760h"},
		{"backup: {max_lag: 100 KB}", "backup.max_lag: must be at least 1000000"},
		{"backup: {max_lag: 1.5 GB}", "backup.max_lag: must be a size"},
		{"http: {acme_hosts: ['a.example.com:443']}", "http.acme_hosts[0]: must be a host name"},
		{"http: {acme_hosts: ['*.example.com']}", "http.acme_hosts[0]: must be a host name"},
		{"limits: {user_per_minute: -1}", "limits.user_per_minute: must be at least 0"},
		{"redis: {mode: many}", "redis.mode: must be one of single, sentinel, cluster"},
		{"redis: {mode: sentinel}", "redis.master_name: must be set in mode sentinel"},
		{"redis: {mode: cluster, master_name: a}", "redis.master_name: is for mode sentinel only"},
		{"ingest: {redis: {mode: sentinel, addrs: ['a:1']}}", "ingest.redis.master_name: must be set in mode sentinel"},
		{"ingest: {redis: {addrs: ['a:1', 'b:1']}}", "ingest.redis.addrs: must be a list of 1 in mode single"},
		{"redis: {addrs: []}", "redis.addrs: must have at least one"},
		{"redis: {addrs: ['a:1', 'b:1']}", "redis.addrs: must be a list of 1"},
		{"redis: {addrs: 'a:1,b:1'}", "redis.addrs: must be a list of 1"},
		{"redis: {addrs: [a]}", "redis.addrs[0]: must be host:port"},
		{"redis: {addrs: ['redis://:hunter22@a:1']}", "redis.addrs[0]: must be host:port"},
		{"redis: {addrs: ['u:hunter22@a:1']}", "redis.addrs[0]: must be host:port"},
		{"redis: {addrs: ['hunter22@a:1']}", "redis.addrs[0]: must be host:port"},
		{"redis: {addrs: hunter22}", "redis.addrs[0]: must be host:port"},
		{"ingest: {kafka: {brokers: ['u:hunter22@a:1']}}", "ingest.kafka.brokers[0]: must be host:port"},
		{"http: {max_connections: 0}", "http.max_connections: must be at least 1"},
		{"http: {metrics_addr: '9090'}", "http.metrics_addr: must be host:port"},
		{"redis: {addrs: [5]}", "redis.addrs[0]: must be text"},
		{"redis: {addrs: 5}", "redis.addrs: must be a list"},
		{"redis: {password: 0123}", "redis.password: must be text"},
		{"redis: {tls: maybe}", "redis.tls: must be true or false"},
		{"redis: {tls: 1}", "redis.tls: must be true or false"},
		{"redis: {tls: ''}", "redis.tls: must be true or false"},
		{"redis: {key_prefix: 'a{b}'}", "redis.key_prefix: must have none of {}"},
		{"redis: {key_prefix: " + strings.Repeat("x", 41) + "}", "redis.key_prefix: must have at most 40 characters"},
		{"postgres: {max_conns: 3}", "postgres.max_conns: must be at least 5, not 3"},
		{"postgres: {max_conns: 1001}", "postgres.max_conns: must be at most 1000, not 1001"},
		{"postgres: {max_conns: many}", "postgres.max_conns: must be a whole number"},
		{"postgres: {dsn: {host: a}}", "postgres.dsn: must be text"},
		{"auth: {hs256_secret: " + strings.Repeat("x", 31) + "}", "auth.hs256_secret: must have at least 32 bytes"},
		{"auth: {hs256_secret: 12345678901234567}", "auth.hs256_secret: must be text"},
		{"auth: {jwks_url: login.example.com}", "auth.jwks_url: must be an http or https address"},
		{"auth: {jwks_url: 'file:///etc/keys'}", "auth.jwks_url: must be an http or https address"},
		{"auth: {jwks_url: 'https://login:hunter22@example.com/keys'}", "auth.jwks_url: must have no user and password"},
		{"auth: {jwks_url: 'ftp://login:hunter22@example.com/keys'}", "auth.jwks_url: must be an http or https address"},
		{"auth: {hs256_previous_secret: " + strings.Repeat("x", 32) + "}", "auth.hs256_previous_secret: is for a change of auth.hs256_secret"},
		{"auth: {hs256_previous_secret: " + strings.Repeat("x", 31) + "}", "auth.hs256_previous_secret: must have at least 32 bytes"},
		{"auth: {max_token_lifetime: -1h}", "auth.max_token_lifetime: must be at least 0"},
		{"ingest: {mode: rabbit}", "ingest.mode: must be one of direct, redis, kafka"},
		{"ingest: {mode: kafka}", "ingest.kafka.brokers: must be set"},
		{"ingest: {rewind: 2h}", "ingest.redis.keep: must be at least ingest.rewind, 2h0m0s"},
		{"ingest: {batch_size: 0}", "ingest.batch_size: must be at least 1"},
		{"ingest: {batch_size: 10000001}", "ingest.batch_size: must be at most 10000000"},
		{"hot_days: 1", "hot_days: must be at least 2, not 1"},
		{"hot_days: 31", "hot_days: must be at most 30, not 31"},
		{"hot_days: -3", "hot_days: must be at least 2, not -3"},
		{"hot_days: 3.9", "hot_days: must be a whole number"},
		{"hot_days: true", "hot_days: must be a whole number"},
		{"hot_days: ''", "hot_days: must be a whole number"},
		{"hot_days: 3 days", "hot_days: must be a whole number"},
		{"hot_days: 99999999999999999999", "hot_days: must be a whole number"},
		{"hot_days: [3]", "hot_days: must be a whole number"},
		{"clock: {offset: 5}", "clock.offset: must be a duration with its unit"},
		{"clock: {offset: '5'}", "clock.offset: must be a duration with its unit"},
		{"clock: {offset: 1d}", "clock.offset: must be a duration with its unit"},
		{"log: {level: loud}", `log.level: must be one of debug, info, warn, error, not "loud"`},
		{"log: {format: xml}", "log.format: must be one of json, text"},
		{"traces: {endpoint: 'collector:4318'}", "traces.endpoint: must be an http or https address"},
		{"traces: {endpoint: 'http://u:hunter22@collector:4318'}", "traces.endpoint: must have no user"},
		{"traces: {endpoint: 'http://collector:4318/?key=hunter22'}", "traces.endpoint: must have no user, query"},
		{"traces: {ratio: 0}", "traces.ratio: must be more than 0, not 0"},
		{"traces: {ratio: 1.5}", "traces.ratio: must be at most 1, not 1.5"},
		{"traces: {ratio: .nan}", "traces.ratio: must be "},
		{"traces: {ratio: 'nan'}", "traces.ratio: must be "},
		{"traces: {ratio: 1 %}", "traces.ratio: must be a number"},
		{"traces: {ratio: true}", "traces.ratio: must be a number"},
		{"traces: {ratio: ''}", "traces.ratio: must be a number"},
		{"boards:", "boards: must have at least one"},
		{"boards: []", "boards: must have at least one"},
		{"boards: steps", "boards: must be a list"},
		{"boards: {name: steps}", "boards: must be a list"},
		{"boards: 5", "boards: must be a list"},
		{"boards: '[{name'", "boards: not a YAML list"},
		{"boards: [steps]", "boards[0]: must have a name"},
		{"boards: [{}]", "boards[0].name: must be set"},
		{"boards: [{name: a}, {shards: 2}]", "boards[1].name: must be set"},
		{"boards: [{name: a}, {name: b}, {name: a}]", "boards: two of them have the same name"},
		{"boards: [{name: 5}]", "boards[0].name: must be text"},
		{"boards: [{name: b, kind: event, start: 2026-12-01}]", "boards[0].start: must be a time with its zone, in quotes"},
		{"boards: [{name: b, kind: event, start: soon}]", "boards[0].start: must be a time with its zone, in quotes"},
		{"ledger: {retain: 1h}", "ledger.retain: must be at least 24h"},
		{"boards: [{name: a, max_score: 1.5}]", "boards[0].max_score: must be a whole number"},
		{"boards: [{name: a, global: all}]", "boards[0].global: must be one of users, service"},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			_, err := (given{file: tt.file}).load(t)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Fatalf("error %v, want %s…", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter22") {
				t.Errorf("the error shows a password: %v", err)
			}
		})
	}
}

// Operators should not have to start the service once for each mistake.
func TestAllBadValuesAreNamedAtOnce(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file string
		want       []string
	}{
		{"out of range", "hot_days: 99\nlog: {level: loud}\npostgres: {max_conns: 0}", []string{"hot_days", "log.level", "postgres.max_conns"}},
		{"of the wrong type", "hot_days: x\nredis: {tls: x}\nboards: [{name: a, shards: x}]", []string{"boards[0].shards", "hot_days", "redis.tls"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := given{file: tt.file}.load(t)
			if err == nil {
				t.Fatal("no error")
			}
			var keys []string
			for line := range strings.Lines(err.Error()) {
				key, _, _ := strings.Cut(line, ":")
				keys = append(keys, key)
			}
			slices.Sort(keys)
			if diff := cmp.Diff(tt.want, keys); diff != "" {
				t.Errorf("-want +got:\n%s\n%v", diff, err)
			}
		})
	}
}

// Messages go to logs and screens, so they must not contain a secret.
func TestErrorsShowNoSecret(t *testing.T) {
	t.Parallel()
	for _, file := range []string{
		"auth: {hs256_secret: hunter22}",
		"traces: {endpoint: 'http://u:hunter22@collector:4318'}",
		"auth: {hs256_secret: [hunter22]}",
		"redis: {password: [hunter22]}",
		"postgres: {dsn: {password: hunter22}}",
		"redis: {password: {hunter22: hunter22}}",
	} {
		if _, err := (given{file: file}).load(t); err == nil || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestBoards(t *testing.T) {
	t.Parallel()
	steps := config.Board{Name: "steps", Kind: "daily", TimeZone: "Asia/Shanghai", OpenDays: 2, MaxScore: 100_000, Order: "high", Shards: 1, Global: "users", Uploads: "users", ChangeStream: true}
	bare := func(name string) config.Board {
		b := steps
		b.Name = name
		return b
	}
	today, rolling := bare("a"), bare("a")
	today.OpenDays = 0
	rolling.Kind, rolling.OpenDays, rolling.ChangeStream = "rolling", 0, false
	full := config.Board{Name: "walk-2", Kind: "daily", TimeZone: "Europe/Berlin", OpenDays: 30, MaxScore: 17_179_869_183, Order: "high", Shards: 1024, Global: "service", Uploads: "service", ChangeStream: true, ReviewAbove: 60_000, HoldAbove: 90_000, Unit: "steps"}
	const fullText = "{name: walk-2, kind: daily, time_zone: Europe/Berlin, open_days: 30, max_score: 17_179_869_183, order: high, shards: 1024, " +
		"global: service, uploads: service, change_stream: true, review_above: 60_000, hold_above: 90_000, unit: steps}"
	tests := []struct {
		name  string
		given given
		want  []config.Board
	}{
		{"none", given{}, []config.Board{steps}},
		{"none, on a data folder", given{file: "data: {dir: d}"}, nil},
		{"an empty list, on a data folder", given{file: "data: {dir: d}\nboards: []"}, []config.Board{}},
		{"on a data folder", given{file: "data: {dir: d}\nboards: [{name: a}]"}, []config.Board{bare("a")}},
		{"a name is enough", given{file: "boards: [{name: a}]"}, []config.Board{bare("a")}},
		{"all settings", given{file: "boards: [" + fullText + "]"}, []config.Board{full}},
		{"more than the default's one", given{file: "boards: [{name: a}, " + fullText + ", {name: c}]"}, []config.Board{bare("a"), full, bare("c")}},
		{"from the environment", given{env: []string{"STEPBOARD_BOARDS=[{name: a}, " + fullText + "]"}}, []config.Board{bare("a"), full}},
		{"no open days", given{file: "boards: [{name: a, open_days: 0}]"}, []config.Board{today}},
		{"open days are for daily boards", given{file: "boards: [{name: a, kind: rolling}]"}, []config.Board{rolling}},
		{"from the environment, as JSON", given{env: []string{`STEPBOARD_BOARDS=[{"name":"a"}]`}}, []config.Board{bare("a")}},
		{"from the environment, over lines", given{env: []string{"STEPBOARD_BOARDS=- name: a\n- name: b\n  shards: 1\n"}}, []config.Board{bare("a"), bare("b")}},
		{"from the command line", given{flags: map[string]string{"boards": "[{name: a}]"}}, []config.Board{bare("a")}},
		{"they replace those of the file", given{file: "boards: [{name: a}, {name: b}]", flags: map[string]string{"boards": "[{name: c}]"}}, []config.Board{bare("c")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := tt.given.load(t)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, cfg.Boards); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for i, def := range cfg.BoardDefinitions() {
				b := tt.want[i]
				if def.Name != b.Name || string(def.Kind) != b.Kind || def.TimeZone != b.TimeZone || def.OpenDays != b.OpenDays ||
					def.MaxScore != b.MaxScore || string(def.Order) != b.Order || def.Shards != b.Shards || string(def.Global) != b.Global || string(def.Uploads) != b.Uploads {
					t.Errorf("defined as %+v, want %+v", def, b)
				}
			}
		})
	}
}

func TestUnreadableFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	tests := []struct{ name, path, text string }{
		{"missing", filepath.Join(folder, "nix.yaml"), ""},
		{"a folder", folder, ""},
		{"no YAML", "", "http: [unclosed"},
		{"a list", "", "[http]"},
		{"text", "", "http"},
		{"a key twice", "", "log: {level: info}\nlog: {level: warn}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := tt.path
			if path == "" {
				path = settingsFile(t, tt.text)
			}
			if _, err := config.Load(config.Sources{File: path}); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v does not name %s", err, path)
			}
		})
	}
}

// Not parallel: the default file is looked for in the working folder.
func TestTheDefaultFile(t *testing.T) {
	t.Chdir(t.TempDir())
	cfg, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default(), cfg); diff != "" {
		t.Errorf("without a file not the defaults (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(config.DefaultFile, []byte("hot_days: 7"), 0o600); err != nil {
		t.Fatal(err)
	}
	if cfg, err = config.Load(config.Sources{}); err != nil || cfg.HotDays != 7 {
		t.Errorf("hot_days %d, %v: the file was not read", cfg.HotDays, err)
	}
	if cfg, err = config.Load(config.Sources{File: settingsFile(t, "hot_days: 8")}); err != nil || cfg.HotDays != 8 {
		t.Errorf("hot_days %d, %v: the named file was not read alone", cfg.HotDays, err)
	}
	if err := os.WriteFile(config.DefaultFile, []byte("hot_days: 99"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = config.Load(config.Sources{}); err == nil {
		t.Error("a bad default file is passed over")
	}
}

func TestRequireServe(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("s", 32)
	tests := []struct {
		name, secret, jwks, dsn string
		want                    []string
	}{
		{"nothing is set", "", "", "", []string{"auth.hs256_secret", "auth.jwks_url"}},
		{"no way to check tokens", "", "", "host=db", []string{"auth.hs256_secret", "auth.jwks_url"}},
		{"no database", secret, "", "", []string{"postgres.dsn"}},
		{"no database, with a JWKS", "", "https://login.example/keys", "", []string{"postgres.dsn"}},
		{"a secret", secret, "", "host=db", nil},
		{"a JWKS", "", "https://login.example/keys", "host=db", nil},
		{"both", secret, "https://login.example/keys", "host=db", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := config.Default()
			cfg.Auth.HS256Secret, cfg.Auth.JWKSURL, cfg.Postgres.DSN = tt.secret, tt.jwks, tt.dsn
			err := cfg.RequireServe()
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			for _, key := range tt.want {
				if !strings.Contains(err.Error(), key) {
					t.Errorf("error %v does not name %s", err, key)
				}
			}
			if err := cfg.RequireStores(); (err != nil) != (tt.dsn == "") {
				t.Errorf("DSN %q: %v", tt.dsn, err)
			}
		})
	}
}

// serve needs a board of WeChat's days for each mini program, and a secret that signs tokens.
func TestRequireWeChat(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*config.Config)
		want   string // what the error begins with
	}{
		{"as it should be", func(*config.Config) {}, ""},
		{"a data folder, which has a secret", func(c *config.Config) { c.Data.Dir, c.Auth = "d", config.Auth{} }, ""},
		{"a data folder, which has boards", func(c *config.Config) { c.Data.Dir, c.Boards = "d", nil }, ""},
		{"the longest token", func(c *config.Config) { c.Auth.MaxTokenLifetime = 24 * time.Hour }, ""},
		{"an unknown board", func(c *config.Config) { c.WeChat.Apps[0].Board = "other" }, "wechat.apps[0].board"},
		{"another zone", func(c *config.Config) { c.Boards[0].TimeZone = "Asia/Tokyo" }, "wechat.apps[0].board"},
		{"local days", func(c *config.Config) { c.Boards[0].TimeZone = "local" }, "wechat.apps[0].board"},
		{"the lowest first", func(c *config.Config) { c.Boards[0].Order = "low" }, "wechat.apps[0].board"},
		{"an event", func(c *config.Config) { c.Boards[0].Kind = "event" }, "wechat.apps[0].board"},
		{"no secret", func(c *config.Config) { c.Auth = config.Auth{JWKSURL: "https://login.example/keys"} }, "wechat.apps: need auth.hs256_secret"},
		{"a data folder, whose secret is not used", func(c *config.Config) {
			c.Data.Dir, c.Auth = "d", config.Auth{JWKSURL: "https://login.example/keys"}
		}, "wechat.apps: need auth.hs256_secret"},
		{"longer than tokens may be", func(c *config.Config) { c.Auth.MaxTokenLifetime = time.Hour }, "wechat.token_ttl"},
	} {
		cfg := config.Default()
		cfg.Auth.HS256Secret, cfg.Postgres.DSN = strings.Repeat("s", 32), "host=db"
		cfg.Boards[0].TimeZone = "Asia/Shanghai"
		cfg.WeChat.Apps = []config.WeChatApp{{AppID: "wx1", Secret: "s", Board: "steps"}}
		tt.change(&cfg)
		err := cfg.RequireServe()
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// serve copies nothing without an address, whatever keys it has.
func TestKeysOfNoBucketAreRefused(t *testing.T) {
	t.Parallel()
	for key, set := range map[string]func(*config.Backup){
		"backup.access_key": func(b *config.Backup) { b.AccessKey, b.SecretKey = "id", "0123" },
		"backup.endpoint":   func(b *config.Backup) { b.Endpoint = "https://minio.example.com" },
		"backup.region":     func(b *config.Backup) { b.Region = "a" },
	} {
		cfg := config.Default()
		cfg.Data.Dir = "d"
		set(&cfg.Backup)
		if err := cfg.RequireServe(); err == nil || !strings.HasPrefix(err.Error(), key+": is for backup.to") {
			t.Errorf("%s: %v", key, err)
		}
		cfg.Backup.To = "s3://bucket"
		if err := cfg.RequireServe(); err != nil {
			t.Errorf("%s beside backup.to: %v", key, err)
		}
	}
}

// Kubernetes sets variables in every container for a service named stepboard, which
// look like settings.
func TestServiceLinksAreNoSettings(t *testing.T) {
	t.Parallel()
	_, err := config.Load(config.Sources{File: "../stepboard.example.yaml", Env: []string{
		"STEPBOARD_SERVICE_HOST=10.0.0.1", "STEPBOARD_SERVICE_PORT=80", "STEPBOARD_SERVICE_PORT_HTTP=80",
		"STEPBOARD_PORT=tcp://10.0.0.1:80", "STEPBOARD_PORT_80_TCP=tcp://10.0.0.1:80", "STEPBOARD_PORT_80_TCP_ADDR=10.0.0.1",
	}})
	if err != nil {
		t.Error(err)
	}
}

// Whoever names a data folder and servers may mean either.
func TestADataFolderIsRefusedBesideServers(t *testing.T) {
	t.Parallel()
	for key, given := range map[string]given{
		"redis.addrs":        {file: "redis: {addrs: ['127.0.0.1:6379']}"},
		"redis.tls":          {flags: map[string]string{"redis.tls": "false"}},
		"postgres.dsn":       {env: []string{"STEPBOARD_POSTGRES__DSN=host=db"}},
		"postgres.max_conns": {file: "postgres: {max_conns: 25}"},
		"ingest.mode":        {file: "ingest: {mode: redis}"},
		"ingest.kafka.topic": {env: []string{"STEPBOARD_INGEST__KAFKA__TOPIC=t"}},
		"ingest.redis.addrs": {file: "ingest: {redis: {addrs: ['a:1']}}"},
	} {
		if _, err := given.load(t); err != nil {
			t.Errorf("%s is refused without a data folder: %v", key, err)
		}
		given.env = append(given.env, "STEPBOARD_DATA__DIR=d")
		if _, err := given.load(t); err == nil || !strings.HasPrefix(err.Error(), key+": ") || !strings.Contains(err.Error(), "data.dir") {
			t.Errorf("%s: %v", key, err)
		}
	}
}
