package ingest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// checkTimeout bounds the check of a topic.
const checkTimeout = 10 * time.Second

// check asks the brokers whether the topic exists and is configured as the
// options demand, and whether they take records from this user. It only warns
// if it may not read the settings, and about settings that depend on the load
// or on the risk that the operator accepts. Three requests.
func (k *Kafka) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	topics, err := k.admin.ListTopics(ctx, k.options.Topic)
	if err != nil {
		return fmt.Errorf("ask %s for topic %q: %w", strings.Join(k.options.Brokers, ", "), k.options.Topic, err)
	}
	topic := topics[k.options.Topic]
	if errors.Is(topic.Err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("there is no topic %q; create it: its number of partitions is the most consumers that can share the work", k.options.Topic)
	}
	if topic.Err != nil {
		return fmt.Errorf("describe topic %q: %w", k.options.Topic, topic.Err)
	}
	// Without the right to append, the client would refuse all appends until the
	// process is restarted.
	if _, _, err := k.client.ProducerID(ctx); err != nil {
		return fmt.Errorf("register as a producer: %w", err)
	}

	settings, err := k.settings(ctx)
	if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		k.options.Log.WarnContext(ctx, "the Kafka topic's settings may not be read; check them yourself", "topic", k.options.Topic,
			"cleanup.policy", "delete", "retention.ms", k.options.Retention.Milliseconds(), "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the settings of topic %q: %w", k.options.Topic, err)
	}
	warnings, err := checkTopic(settings, topic.Partitions.NumReplicas(), k.options.Retention)
	if err != nil {
		return fmt.Errorf("topic %q: %w", k.options.Topic, err)
	}
	for _, warning := range warnings {
		k.options.Log.WarnContext(ctx, "the Kafka topic is less durable than it could be", "topic", k.options.Topic, "warning", warning)
	}
	return nil
}

// settings reads the topic's settings.
func (k *Kafka) settings(ctx context.Context) (map[string]string, error) {
	described, err := k.admin.DescribeTopicConfigs(ctx, k.options.Topic)
	if err != nil {
		return nil, err
	}
	topic, err := described.On(k.options.Topic, nil)
	if err = errors.Join(err, topic.Err); err != nil {
		return nil, err
	}
	settings := make(map[string]string, len(topic.Configs))
	for _, c := range topic.Configs {
		settings[c.Key] = c.MaybeValue()
	}
	return settings, nil
}

// checkTopic judges a topic by its settings. The error is the reason why
// records could be lost. The warnings name conditions under which they could
// be.
//
// A limit in bytes is only a warning: whether it shortens the retention depends
// on the load, and without a limit a disk can fill up.
func checkTopic(settings map[string]string, replicas int, retention time.Duration) (warnings []string, err error) {
	if policy := settings["cleanup.policy"]; strings.Contains(policy, "compact") {
		return nil, fmt.Errorf("cleanup.policy is %q and must be \"delete\": compaction keeps one update of each user", policy)
	}
	ms, err := strconv.ParseInt(settings["retention.ms"], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("retention.ms is %q and must be a number", settings["retention.ms"])
	}
	if needed := retention.Milliseconds(); ms >= 0 && ms < needed {
		return nil, fmt.Errorf("retention.ms is %d (%v) and must be at least %d (%v), or -1",
			ms, time.Duration(ms)*time.Millisecond, needed, retention)
	}
	if bytes, err := strconv.ParseFloat(settings["retention.bytes"], 64); err == nil && bytes >= 0 {
		warnings = append(warnings, fmt.Sprintf(
			"retention.bytes is %.0f: beyond about %.0f updates a second in a partition, records are deleted before %v have passed",
			bytes, bytes/(2*recordSize)/max(1, retention.Seconds()), retention))
	}
	if least, err := strconv.Atoi(settings["min.insync.replicas"]); err == nil && (least < 2 || replicas < 2) {
		warnings = append(warnings, fmt.Sprintf(
			"min.insync.replicas is %d, of %d replicas: acknowledged records may be on one broker only", least, replicas))
	}
	return warnings, nil
}
