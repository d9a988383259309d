package config

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-playground/validator/v10"

	"stepboard/internal/outbound"
	"stepboard/models"
)

// Setting describes one key, for help texts and tables.
type Setting struct {
	// Key is the path in the file, such as http.addr.
	Key string
	// Default is the default value as text; empty for none.
	Default string
	// Doc describes the setting in one or more sentences.
	Doc string
	// Switch reports whether the setting is a boolean, which is true if the command
	// line names it without a value.
	Switch bool
}

// Env returns the name of the setting's environment variable.
func (s Setting) Env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "__"))
}

// Settings returns every setting, in the order of the struct.
func Settings() []Setting {
	return settings("", reflect.ValueOf(Default()))
}

func settings(prefix string, v reflect.Value) []Setting {
	var list []Setting
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := prefix + f.Tag.Get("koanf")
		if f.Type.Kind() == reflect.Struct {
			list = append(list, settings(key+".", v.Field(i))...)
			continue
		}
		text := fmt.Sprint(plain(v.Field(i)))
		if key == "boards" {
			text = "one board, steps"
		}
		list = append(list, Setting{Key: key, Default: strings.Trim(text, "[]"), Doc: f.Tag.Get("doc"), Switch: f.Type.Kind() == reflect.Bool})
	}
	return list
}

// Printable returns the settings as nested maps, with secrets hidden.
func (c *Config) Printable() map[string]any { return structMap(reflect.ValueOf(*c)) }

func structMap(v reflect.Value) map[string]any {
	m := make(map[string]any, v.NumField())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		value := plain(v.Field(i))
		switch secret := f.Tag.Get("secret"); texts := value.(type) {
		case string:
			if texts != "" {
				value = hide(texts, secret)
			}
		case []string:
			hidden := make([]string, len(texts))
			for i, text := range texts {
				hidden[i] = hide(text, secret)
			}
			value = hidden
		}
		m[f.Tag.Get("koanf")] = value
	}
	return m
}

// plain returns a field's value in a form that YAML prints well.
func plain(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case time.Duration:
		return value.String()
	case Size:
		return value.String()
	case time.Time:
		if value.IsZero() {
			return ""
		}
		return value.Format(time.RFC3339)
	}
	switch {
	case v.Kind() == reflect.Struct:
		return structMap(v)
	case isListOfGroups(v.Type()):
		list := make([]any, v.Len())
		for i := range list {
			list[i] = structMap(v.Index(i))
		}
		return list
	default:
		return v.Interface()
	}
}

// isListOfGroups reports whether a setting is a list of settings, such as boards.
func isListOfGroups(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

const hidden = "********"

func hide(text, secret string) string {
	switch secret {
	case "":
		return text
	case "dsn":
		return hideDSN(text)
	case "url":
		return hideQuery(text)
	default:
		return hidden
	}
}

var (
	// dsnPair matches key=value in a DSN of keywords; a value may be in quotes.
	dsnPair = regexp.MustCompile(`(?s)([^\s=]+)(\s*=\s*)('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)(?:[^\s\\]|\\.)*|)`)
	// dsnPairs matches a DSN that consists of nothing else.
	dsnPairs = regexp.MustCompile(`^\s*(?:` + dsnPair.String() + `(?:\s+|$))+$`)
)

// hideDSN hides the passwords of a DSN and the values of keywords that are not in
// shownInDSN. A DSN that it can't parse is hidden as a whole.
func hideDSN(text string) string {
	if strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://") {
		return hideURL(text)
	}
	if !dsnPairs.MatchString(text) {
		return hidden
	}
	for _, pair := range dsnPair.FindAllStringSubmatch(text, -1) {
		if !dsnKey.MatchString(pair[1]) {
			return hidden
		}
	}
	return dsnPair.ReplaceAllStringFunc(text, func(pair string) string {
		m := dsnPair.FindStringSubmatch(pair)
		if key, equals := m[1], m[2]; !shownInDSN[key] {
			return key + equals + hidden
		}
		return pair
	})
}

// dsnKey matches the form of a keyword. Other text before an equals sign may be a
// part of a password, as in a URL whose scheme is mistyped.
var dsnKey = regexp.MustCompile(`^[a-z_]+$`)

// shownInDSN holds the keywords of a DSN whose values are shown. All other values
// are hidden, because one may be a password whose keyword is mistyped.
var shownInDSN = map[string]bool{
	"host": true, "hostaddr": true, "port": true, "user": true, "dbname": true, "database": true,
	"application_name": true, "connect_timeout": true, "search_path": true, "target_session_attrs": true,
	"sslmode": true, "sslrootcert": true, "sslcert": true, "sslkey": true, "sslnegotiation": true, "channel_binding": true,
}

func hideURL(text string) string {
	u, err := url.Parse(text)
	// A password with an unescaped / or # is parsed as a part after the host.
	if err != nil || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return hidden
	}
	return redacted(u, shownInDSN)
}

// redacted returns an address with xxxxx in place of its password and of the parameters that are not shown.
func redacted(u *url.URL, shown map[string]bool) string {
	q := u.Query()
	for key := range q {
		if !shown[key] {
			q.Set(key, "xxxxx") // as Redacted writes it
		}
	}
	u.RawQuery = q.Encode()
	return u.Redacted()
}

// hideQuery hides the user, the password and the values of the query in a URL.
func hideQuery(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Opaque != "" {
		return hidden
	}
	return redacted(u, nil)
}

// isHostPort reports whether a field is host:port. The host may be empty, and the
// port may be 0. A user or a path, as in a URL, is not part of it.
func isHostPort(fl validator.FieldLevel) bool {
	host, port, err := net.SplitHostPort(fl.Field().String())
	if err != nil || strings.ContainsAny(host, "@/? ") {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535
}

// isLoopback reports whether a field is host:port with a loopback IP address as
// the host.
func isLoopback(fl validator.FieldLevel) bool {
	host, _, err := net.SplitHostPort(fl.Field().String())
	return err == nil && isHostPort(fl) && net.ParseIP(host).IsLoopback()
}

// basePath matches a path of plain segments, without a slash at the end.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)

// isBasePath reports whether a field is a path that every client sends as it is written.
func isBasePath(fl validator.FieldLevel) bool {
	text := fl.Field().String()
	return basePath.MatchString(text) && path.Clean(text) == text // none of . and ..
}

// slug matches a name that stands in addresses as it is.
var slug = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// isSlug reports whether a field is such a name.
func isSlug(fl validator.FieldLevel) bool { return slug.MatchString(fl.Field().String()) }

// isOrigin reports whether a field is * or an origin in the form that browsers send: lower case,
// without a path, a user and the scheme's own port.
func isOrigin(fl validator.FieldLevel) bool {
	text := fl.Field().String()
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || strings.Contains(u.Host, "*") {
		return text == "*"
	}
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return text == strings.ToLower(u.Scheme+"://"+u.Host) && (u.Port() == "" || u.Port() != usual)
}

// isWebhookSecret reports whether a field is a secret in the form of Standard Webhooks.
func isWebhookSecret(fl validator.FieldLevel) bool {
	encoded, found := strings.CutPrefix(fl.Field().String(), "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	return found && err == nil && len(key) >= 24 && len(key) <= 64
}

// isContact reports whether a field is an address to write to, as push services take it: mailto: and
// an e-mail address, or one of https.
func isContact(fl validator.FieldLevel) bool {
	text := fl.Field().String()
	if email, found := strings.CutPrefix(text, "mailto:"); found {
		parsed, err := mail.ParseAddress(email)
		return err == nil && parsed.Address == email && outbound.IsPublicHost(email[strings.LastIndex(email, "@")+1:])
	}
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.User == nil && outbound.IsPublicHost(u.Hostname())
}

// isOutcomeType reports whether a field is the type of an outcome.
func isOutcomeType(fl validator.FieldLevel) bool {
	return slices.Contains(models.OutcomeTypes(), models.OutcomeType(fl.Field().String()))
}

// hasMinBytes reports whether a field has at least as many bytes as its parameter
// says. The validator's own min counts characters.
func hasMinBytes(fl validator.FieldLevel) bool {
	least, err := strconv.Atoi(fl.Param())
	return err == nil && len(fl.Field().String()) >= least
}

// faults says what is wrong with a setting, by the tag of the check that has failed.
var faults = map[string]string{
	"required":    "must be set",
	"oneof":       "must be one of {param}, not {value}",
	"gt":          "must be more than {param}, not {value}",
	"minbytes":    "must have at least {param} bytes",
	"excludesall": "must have none of {param} in it",
	"hostport":    "must be host:port, not {value}",
	"loopback":    "must be an address of this machine alone, such as 127.0.0.1:6060, not {value}",
	"basepath":    "must begin with /, not end with it, and have plain segments, such as /steps, not {value}",
	"origin":      "must be an origin as browsers send it, such as https://app.example.com, without a / at the end, or * for all, not {value}",
	"slug":        "must be of small letters, digits and single hyphens, not {value}",
	"cidr|ip":     "must be an address or a network such as 10.0.0.0/8, not {value}",
	"fqdn":        "must be a host name such as steps.example.com, not {value}",
	"http_url":    "must be an http or https address",
	"unique":      "two of them have the same {param}",
	"whsec":       "must be whsec_ and 24 to 64 bytes in base64",
	"contact":     "must be an address such as mailto:ops@example.com or https://example.com/contact, with a public name, not {value}: push services refuse others",
	"outcome":     "must be one of " + strings.ReplaceAll(strings.Trim(fmt.Sprint(models.OutcomeTypes()), "[]"), " ", ", ") + ", not {value}",
}

// explain returns a sentence about what is wrong with a setting.
func explain(f validator.FieldError) string {
	_, key, _ := strings.Cut(f.Namespace(), ".")
	fault, param, value := faults[f.Tag()], f.Param(), fmt.Sprint(f.Value())
	if f.Kind() == reflect.String {
		value = strconv.Quote(value)
	}
	switch f.Tag() {
	case "oneof":
		param = strings.ReplaceAll(param, " ", ", ")
	case "unique":
		param = strings.ToLower(param)
	case "min", "max":
		fault = explainBound(f)
	case "hostport":
		if !strings.HasPrefix(key, "http.") { // the address of a store may have been given as a URL with its password
			fault = "must be host:port, such as 127.0.0.1:6379, without user, password and path"
		}
	}
	return key + ": " + strings.NewReplacer("{param}", param, "{value}", value).Replace(cmp.Or(fault, "does not satisfy "+f.Tag()))
}

func explainBound(f validator.FieldError) string {
	word := map[string]string{"min": "at least", "max": "at most"}[f.Tag()]
	switch f.Kind() {
	case reflect.String:
		return fmt.Sprintf("must have %s %s characters", word, f.Param())
	case reflect.Slice:
		if f.Param() == "1" {
			return fmt.Sprintf("must have %s one", word)
		}
		return fmt.Sprintf("must have %s %s of them", word, f.Param())
	default:
		return fmt.Sprintf("must be %s %s, not %v", word, f.Param(), f.Value())
	}
}
