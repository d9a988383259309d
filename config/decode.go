package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/v2"
)

// unmarshal decodes the loaded settings into cfg. Its error names the keys that are
// unknown or have values of the wrong type.
func unmarshal(k *koanf.Koanf, cfg *Config) error {
	var seen mapstructure.Metadata
	err := k.UnmarshalWithConf("", cfg, koanf.UnmarshalConf{
		Tag: "koanf",
		DecoderConfig: &mapstructure.DecoderConfig{
			Metadata:   &seen,
			DecodeHook: strict,
			// To the environment and the command line, a key in capitals would be
			// another key, and would override them.
			MatchName: func(key, field string) bool { return key == field },
		},
	})
	errs := wrongTypes(err)
	if len(seen.Unused) > 0 {
		slices.Sort(seen.Unused)
		errs = append(errs, fmt.Errorf("unknown setting: %s", strings.Join(seen.Unused, ", ")))
	}
	return errors.Join(errs...)
}

// wrongTypes splits the decoder's error into one for each key.
func wrongTypes(err error) []error {
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case nil:
		return nil
	case *mapstructure.DecodeError:
		return []error{fmt.Errorf("%s: %w", e.Name(), e.Unwrap())}
	case interface{ Unwrap() []error }:
		var errs []error
		for _, one := range e.Unwrap() {
			errs = append(errs, wrongTypes(one)...)
		}
		return errs
	case interface{ Unwrap() error }:
		return wrongTypes(e.Unwrap())
	default:
		return []error{err}
	}
}

// strict is the decoder's hook. Values from the environment and the command line
// are text. All others must have the setting's own type, because a wrong guess would
// go unnoticed: the password 0123 would be 83, and the offset 5 would be five
// nanoseconds. No message shows the value, which may be a secret.
func strict(from, to reflect.Value) (any, error) {
	text, isText := from.Interface().(string)
	switch to.Interface().(type) {
	case time.Duration:
		if d, err := time.ParseDuration(text); err == nil {
			return d, nil
		}
		return nil, errors.New("must be a duration with its unit, such as 90m")
	case Size:
		return parseSize(text)
	case time.Time:
		if isText && text == "" {
			return time.Time{}, nil
		}
		// Without quotes YAML turns a date into a time, in a zone that the file does
		// not name.
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at, nil
		}
		return nil, errors.New(`must be a time with its zone, in quotes: "2026-12-01T20:00:00+08:00"`)
	case []string:
		if isText {
			return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' }), nil
		}
	}
	return strictKind(from, to)
}

// strictKind is the part of strict that depends on the kind of the setting alone.
func strictKind(from, to reflect.Value) (any, error) {
	value := from.Interface()
	text, isText := value.(string)
	switch kind := to.Kind(); {
	case kind == reflect.String && !isText:
		return nil, errors.New("must be text: put it in quotes")
	case kind == reflect.Bool && isText:
		if value, err := strconv.ParseBool(text); err == nil {
			return value, nil
		}
		return nil, errors.New("must be true or false")
	case kind == reflect.Bool && from.Kind() != reflect.Bool:
		return nil, errors.New("must be true or false")
	case to.CanInt() && !from.CanInt():
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		return nil, errors.New("must be a whole number")
	case kind == reflect.Float64 && !from.CanInt() && !from.CanFloat():
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return n, nil
		}
		return nil, errors.New("must be a number")
	case kind == reflect.Slice && from.Kind() != reflect.Slice:
		return nil, errors.New("must be a list")
	case kind == reflect.Struct && from.Kind() != reflect.Map:
		return nil, errors.New("must hold settings, not a value")
	}
	return value, nil
}
