package wire

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rootLogger is the one logger there is, under Kafka's name. Kafka: LoggingController.ROOT_LOGGER.
const rootLogger = "root"

// logLevels are Kafka's levels, the loudest first, and what they are here. Kafka: LogLevelConfig.
var logLevels = []struct {
	name  string
	level slog.Level
}{
	{"TRACE", slog.LevelDebug - 4},
	{"DEBUG", slog.LevelDebug},
	{"INFO", slog.LevelInfo},
	{"WARN", slog.LevelWarn},
	{"ERROR", slog.LevelError},
	{"FATAL", slog.LevelError + 4},
}

// logLevelName returns Kafka's name of a level, that of the next quieter one between two.
func logLevelName(level slog.Level) string {
	for _, l := range logLevels {
		if level <= l.level {
			return l.name
		}
	}
	return "OFF"
}

func (s *Server) describeLoggers() []describedConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	level := logLevelName(s.logLevel.Level())
	c.Name, c.Value, c.Source, c.ConfigSynonyms = rootLogger, &level, sourceBrokerLogger, []configSynonym{}
	return []describedConfig{c}
}

// alterLoggers sets the level of the log until the process ends: unlike other configs it is not kept.
// Kafka: RuntimeLoggerManager.
func (s *Server) alterLoggers(a *alteration) error {
	if err := s.checkBrokerName(a.name); err != nil {
		return err
	}
	level, found := slog.Level(0), false
	for i := range a.changes {
		c := &a.changes[i]
		switch c.op {
		case kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete:
		default:
			return detail(kerr.InvalidRequest, fmt.Sprintf("logger %s: operation %d, want set or delete", c.name, c.op))
		}
		if c.name != rootLogger {
			return detail(kerr.InvalidConfig, fmt.Sprintf("logger %s does not exist, %s does", c.name, rootLogger))
		}
		if c.op == kmsg.IncrementalAlterConfigOpDelete {
			return detail(kerr.InvalidRequest, "the level of "+rootLogger+" is not to be removed")
		}
		var names []string
		for _, l := range logLevels {
			if l.name == *c.value {
				level, found = l.level, true
			}
			names = append(names, l.name)
		}
		if !found {
			return detail(kerr.InvalidConfig, fmt.Sprintf("logger %s: level %q, want one of %s", c.name, *c.value, strings.Join(names, ", ")))
		}
	}
	if found && !a.validateOnly {
		s.logLevel.Set(level)
		s.logger.Warn("log level changed", "level", level)
	}
	return nil
}
