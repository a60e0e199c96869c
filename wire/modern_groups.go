package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kaen-log/gateway/groups"
)

// What requests of consumer groups and of share groups have in common.

// refuseGroup says why a request does not get as far as its group: the group's protocol is not served, or the caller may
// not do op. It is nil when it does.
func (s *Server) refuseGroup(r *request, served bool, op aclOperation, group string) error {
	switch {
	case !served:
		return kerr.UnsupportedVersion
	case !s.authorize(r, op, resourceGroup, group):
		return kerr.GroupAuthorizationFailed
	}
	return nil
}

// describeFailure is what is told of a group that is not described. That the coordinator or the caller cannot is said by
// the code alone.
func describeFailure(err error) (code int16, message *string) {
	if errors.Is(err, groups.ErrGroupIDNotFound) || err == errHiddenTopics || err == errRepeated {
		message = errorMessage(err)
	}
	return errorCode(err), message
}

// errHiddenTopics is why a group is not described to a caller who may not see all its topics.
var errHiddenTopics = detail(kerr.TopicAuthorizationFailed, "the group has topics that the client may not describe")

// seesTopics reports whether the caller may describe the topics of all partitions.
func (s *Server) seesTopics(r *request, list []groups.NamedPartitions) bool {
	for _, p := range list {
		if !s.authorize(r, opDescribe, resourceTopic, p.Topic) {
			return false
		}
	}
	return true
}
