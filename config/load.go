package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-playground/validator/v10"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	yamlv3 "go.yaml.in/yaml/v3"

	"stepboard/models"
)

const (
	// DefaultFile is read if it exists and no other file is named.
	DefaultFile = "stepboard.yaml"
	// EnvPrefix begins every environment variable; __ separates levels.
	EnvPrefix = "STEPBOARD_"
)

// Sources holds the sources of settings; later fields override earlier ones.
type Sources struct {
	// File is the path of the YAML file; empty means DefaultFile, if present.
	File string
	// Env is the environment, as returned by os.Environ.
	Env []string
	// Flags maps keys such as http.addr to the values of the command line.
	Flags map[string]string
	// Both allows a data folder beside settings of servers, to move from one to the other.
	Both bool
}

// Load reads and checks the settings. The error names the keys that are
// unknown or whose values are bad, a line each.
func Load(src Sources) (Config, error) {
	k := koanf.New(".")
	if err := loadFile(k, src.File); err != nil {
		return Config{}, err
	}
	env, err := envValues(src.Env)
	if err != nil {
		return Config{}, err
	}
	for _, values := range []map[string]any{env, flagValues(src.Flags)} {
		if err := k.Load(confmap.Provider(values, "."), nil); err != nil {
			return Config{}, fmt.Errorf("read settings: %w", err)
		}
	}
	if err := fillBoards(k); err != nil {
		return Config{}, err
	}
	for _, list := range []string{"webhooks", "wechat.apps", "sign_in.oidc"} {
		if _, err := parseList(k, list); err != nil {
			return Config{}, err
		}
	}
	cfg := Default()
	if k.Exists("boards") || k.String("data.dir") != "" { // which keeps the boards that it has
		cfg.Boards = nil
	}
	if err := unmarshal(k, &cfg); err != nil {
		return Config{}, err
	}
	if cfg.Data.Dir != "" && !src.Both {
		if err := refuseServers(k); err != nil {
			return Config{}, err
		}
	}
	return cfg, cfg.validate()
}

// refuseServers returns an error if a setting of servers was given a value, which is for a service
// without a data folder.
func refuseServers(k *koanf.Koanf) error {
	for _, key := range k.Keys() {
		group, _, _ := strings.Cut(key, ".")
		if (group == "redis" || group == "postgres" || group == "ingest") && fmt.Sprint(k.Get(key)) != "" {
			return fmt.Errorf("%s: is for Redis, Postgres and queues, but data.dir keeps everything in a folder: remove one of them", key)
		}
	}
	return nil
}

func loadFile(k *koanf.Koanf, path string) error {
	named := path != ""
	if !named {
		path = DefaultFile
	}
	err := k.Load(file.Provider(path), yaml.Parser())
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read settings from %s: %w", path, err)
	}
	return nil
}

// serviceLink matches what Kubernetes sets for a service named stepboard.
var serviceLink = regexp.MustCompile(`^STEPBOARD_(SERVICE_(HOST|PORT(_.*)?)|PORT(_[0-9]+_.*)?)$`)

// envValues returns the settings in the environment. A variable with the prefix
// that is no setting is an error, because it is probably mistyped.
func envValues(environ []string) (map[string]any, error) {
	known := make(map[string]string)
	for _, s := range Settings() {
		known[s.Env()] = s.Key
	}
	values := make(map[string]any)
	var unknown []string
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, EnvPrefix) {
			continue
		}
		key, ok := known[name]
		if !ok && serviceLink.MatchString(name) {
			continue
		}
		if !ok {
			unknown = append(unknown, name)
			continue
		}
		values[key] = value
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, fmt.Errorf("unknown setting in the environment: %s", strings.Join(unknown, ", "))
	}
	return values, nil
}

func flagValues(flags map[string]string) map[string]any {
	values := make(map[string]any, len(flags))
	for key, value := range flags {
		values[key] = value
	}
	return values
}

// parseList returns a list of settings, and nil if it is not set. It parses a list that
// the environment or the command line gives as YAML. No message shows the text, which may
// hold secrets.
func parseList(k *koanf.Koanf, key string) ([]any, error) {
	raw := k.Get(key)
	text, isText := raw.(string)
	if isText {
		raw = nil
		if err := yamlv3.Unmarshal([]byte(text), &raw); err != nil {
			return nil, fmt.Errorf("%s: not a YAML list", key)
		}
	}
	list, ok := raw.([]any)
	if !ok && raw != nil {
		return nil, fmt.Errorf("%s: must be a list", key)
	}
	if isText {
		return list, k.Set(key, list)
	}
	return list, nil
}

// fillBoards gives each board its defaults.
func fillBoards(k *koanf.Koanf) error {
	if !k.Exists("boards") {
		return nil
	}
	list, err := parseList(k, "boards")
	if err != nil {
		return err
	}
	filled := make([]any, len(list))
	for i, item := range list {
		given, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("boards[%d]: must have a name", i)
		}
		defaults := defaultBoard("")
		if kind, ok := given["kind"]; ok && kind != defaults.Kind {
			defaults.OpenDays = 0
			defaults.ChangeStream = kind != string(models.KindRolling)
		}
		board := structMap(reflect.ValueOf(defaults))
		for key, value := range given {
			board[key] = value
		}
		filled[i] = board
	}
	return k.Set("boards", filled)
}

// validate checks each setting, and the settings against each other.
func (c *Config) validate() error {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("koanf") })
	for tag, check := range map[string]validator.Func{
		"hostport": isHostPort, "loopback": isLoopback, "basepath": isBasePath, "origin": isOrigin, "minbytes": hasMinBytes,
		"whsec": isWebhookSecret, "outcome": isOutcomeType, "contact": isContact, "slug": isSlug,
	} {
		if err := v.RegisterValidation(tag, check); err != nil {
			return err
		}
	}
	var failed validator.ValidationErrors
	if err := v.Struct(c); errors.As(err, &failed) {
		messages := make([]error, len(failed))
		for i, f := range failed {
			messages[i] = errors.New(explain(f))
		}
		return errors.Join(messages...)
	} else if err != nil {
		return err
	}
	if len(c.Boards) == 0 && c.Data.Dir == "" {
		return errors.New("boards: must have at least one")
	}
	if err := cmp.Or(c.HTTP.check(c.Data.Dir), c.Backup.check(c.Data.Dir), c.Redis.check("redis"), c.Auth.check()); err != nil {
		return err
	}
	if len(c.Ingest.Redis.Addrs) > 0 {
		if err := c.Ingest.Redis.Server().check("ingest.redis"); err != nil {
			return err
		}
	}
	if c.Ingest.Redis.Keep < c.Ingest.Rewind {
		return fmt.Errorf("ingest.redis.keep: must be at least ingest.rewind, %v, not %v", c.Ingest.Rewind, c.Ingest.Redis.Keep)
	}
	if c.Ingest.Mode == "kafka" && len(c.Ingest.Kafka.Brokers) == 0 {
		return errors.New("ingest.kafka.brokers: must be set in mode kafka")
	}
	// A password in one of these would not be sent, but printed.
	addresses := [][2]string{{"wechat.api_url", c.WeChat.APIURL}, {"traces.endpoint", c.Traces.Endpoint}}
	for i, p := range c.SignIn.OIDC {
		addresses = append(addresses, [2]string{fmt.Sprintf("sign_in.oidc[%d].issuer", i), p.Issuer})
	}
	for i, w := range c.Webhooks {
		addresses = append(addresses, [2]string{fmt.Sprintf("webhooks[%d].url", i), w.URL})
	}
	for _, a := range addresses {
		if u, err := url.Parse(a[1]); err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return errors.New(a[0] + ": must have no user, query or fragment")
		}
	}
	return nil
}

// check returns an error if the settings of TLS don't fit each other, or the data folder.
func (h HTTP) check(dataDir string) error {
	switch {
	case h.TLSCert == "" && h.TLSKey != "":
		return errors.New("http.tls_cert: must be set beside http.tls_key")
	case h.TLSCert != "" && h.TLSKey == "":
		return errors.New("http.tls_key: must be set beside http.tls_cert")
	case h.TLSCert != "" && len(h.ACMEHosts) > 0:
		return errors.New("http.acme_hosts: certificates are obtained, or http.tls_cert has one, but not both")
	case h.ACMEDirectory != "" && len(h.ACMEHosts) == 0:
		return errors.New("http.acme_directory: needs http.acme_hosts")
	case len(h.ACMEHosts) > 0 && dataDir == "":
		return errors.New("http.acme_hosts: needs data.dir, where certificates are kept")
	}
	return nil
}

// None reports whether nothing is set that tokens can be checked with.
func (a Auth) None() bool { return a.HS256Secret == "" && a.JWKSURL == "" }

// check returns an error if the settings don't fit each other.
func (a Auth) check() error {
	if a.HS256PreviousSecret != "" && a.HS256Secret == "" {
		return errors.New("auth.hs256_previous_secret: is for a change of auth.hs256_secret, which must be set, too")
	}
	if u, err := url.Parse(a.JWKSURL); err != nil || u.User != nil {
		return errors.New("auth.jwks_url: must have no user and password")
	}
	return nil
}

// check returns an error if the addresses don't fit the mode.
func (r Redis) check(key string) error {
	switch {
	case r.Mode == "single" && len(r.Addrs) > 1:
		return fmt.Errorf("%s.addrs: must be a list of 1 in mode single; set %s.mode", key, key)
	case r.Mode == "sentinel" && r.MasterName == "":
		return fmt.Errorf("%s.master_name: must be set in mode sentinel", key)
	case r.Mode != "sentinel" && r.MasterName != "":
		return fmt.Errorf("%s.master_name: is for mode sentinel only", key)
	}
	return nil
}

// BoardDefinitions returns the boards in the form that the catalog stores.
func (c *Config) BoardDefinitions() []models.Board {
	defs := make([]models.Board, len(c.Boards))
	for i, b := range c.Boards {
		defs[i] = models.Board{
			Name: b.Name, Kind: models.Kind(b.Kind), TimeZone: b.TimeZone, OpenDays: b.OpenDays,
			MaxScore: b.MaxScore, Order: models.Order(b.Order), Shards: b.Shards, Global: models.Audience(b.Global),
			StartsAt: optional(b.Start), EndsAt: optional(b.End), Takes: models.Takes(b.Takes), Late: b.Late, LatestEnd: optional(b.LatestEnd), WindowHours: b.Window, ChangeStream: b.ChangeStream,
			ReviewAbove: b.ReviewAbove, HoldAbove: b.HoldAbove, Unit: b.Unit, Uploads: models.Audience(b.Uploads),
		}
	}
	return defs
}

// optional returns nil for a zero time, and otherwise a pointer to it.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// RequireServe checks the settings that only serve needs.
func (c *Config) RequireServe() error {
	var noAuth error
	if c.Data.Dir == "" && c.Auth.None() {
		noAuth = errors.New("auth: set auth.hs256_secret or auth.jwks_url, so that tokens can be checked")
	}
	return errors.Join(c.RequireStores(), noAuth, c.Backup.requireTo(), c.requireWeChat(), c.requireOIDC())
}

// requireOIDC returns an error unless the service has an address to which providers send people back, and a secret that
// signs their tokens.
func (c *Config) requireOIDC() error {
	byClaim := 0
	for _, p := range c.SignIn.OIDC {
		if p.UserClaim != "" {
			byClaim++
		}
	}
	switch {
	case len(c.SignIn.OIDC) == 0:
		return nil
	case c.HTTP.PublicURL == "":
		return errors.New("sign_in.oidc: needs http.public_url, to which providers send people back")
	case c.Auth.HS256Secret == "" && c.Data.Dir == "":
		return errors.New("sign_in.oidc: needs auth.hs256_secret, which signs people's tokens")
	case byClaim > 1:
		return errors.New("sign_in.oidc: one provider at most has a user_claim")
	}
	return nil
}

// chinaZone is the zone of WeChat's days.
const chinaZone = "Asia/Shanghai"

// CheckBoards returns an error unless each mini program has one of the boards, for WeChat's days.
func (w WeChat) CheckBoards(boards []models.Board) error {
	for i, app := range w.Apps {
		if !slices.ContainsFunc(boards, func(b models.Board) bool {
			return b.Name == app.Board && b.Kind == models.KindDaily && b.TimeZone == chinaZone && b.Order == models.OrderHigh
		}) {
			return fmt.Errorf("wechat.apps[%d].board: must be a daily board of the settings with time_zone %s and order high", i, chinaZone)
		}
	}
	return nil
}

// requireWeChat returns an error unless mini programs have a board for WeChat's days, which may be stored in a data
// folder, and their people's tokens a secret that signs them.
func (c *Config) requireWeChat() error {
	if len(c.Boards) > 0 {
		if err := c.WeChat.CheckBoards(c.BoardDefinitions()); err != nil {
			return err
		}
	}
	switch longest := c.Auth.MaxTokenLifetime; {
	case len(c.WeChat.Apps) == 0:
		return nil
	case c.Auth.HS256Secret == "" && (c.Data.Dir == "" || !c.Auth.None()):
		return errors.New("wechat.apps: need auth.hs256_secret, which signs the tokens of their people")
	case longest > 0 && c.WeChat.TokenTTL > longest:
		return fmt.Errorf("wechat.token_ttl: must be at most auth.max_token_lifetime, %v", longest)
	}
	return nil
}

// RequireStores checks that a data folder or a database is configured.
func (c *Config) RequireStores() error {
	if c.Data.Dir == "" && c.Postgres.DSN == "" {
		return errors.New("postgres.dsn: must be set, such as postgres://user:password@host:5432/stepboard, to use Redis and Postgres; " +
			"or data.dir (--data DIR), to keep everything in a folder")
	}
	return nil
}

// RequireMove checks that a data folder and servers are configured.
func (c *Config) RequireMove() error {
	switch {
	case c.Data.Dir == "":
		return errors.New("data.dir: must be set (--data DIR), to move what is in a folder")
	case c.Postgres.DSN == "":
		return errors.New("postgres.dsn: must be set, such as postgres://user:password@host:5432/stepboard: move copies to it, and to redis.addrs")
	default:
		return nil
	}
}
