package wire

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage"
)

// AlterUserScramCredentials, key 51, version 0.
//
// A user may be named once in the request, whatever the mechanisms; who is named twice gets DUPLICATE_RESOURCE and keeps
// what there was. All that can be done is done as one change, durable before it is answered. What is kept are the keys
// that follow from the salted password, which is forgotten. Kafka: ControllerApis.handleAlterUserScramCredentials,
// ScramControlManager; KIP-554.

// alterUserScramCredentials answers an AlterUserScramCredentials request.
func (s *Server) alterUserScramCredentials(r *request, req *kmsg.AlterUserSCRAMCredentialsRequest) (*kmsg.AlterUserSCRAMCredentialsResponse, error) {
	resp := req.ResponseKind().(*kmsg.AlterUserSCRAMCredentialsResponse)
	a := scramAlteration{errs: map[string]error{}}
	err := detail(kerr.ClusterAuthorizationFailed, kerr.ClusterAuthorizationFailed.Description)
	if s.authorize(r, opAlter, resourceCluster, clusterResource) {
		err = s.store.AlterScramCredentials(func(now storage.ScramCredentials) ([]storage.ScramChange, error) {
			return a.decide(req, now)
		})
	}
	if err != nil { // of the whole
		a.users, a.errs = nil, map[string]error{}
		for _, name := range namedUsers(req) {
			a.fail(name, err)
		}
		slices.Sort(a.users)
	}
	resp.Results = make([]kmsg.AlterUserSCRAMCredentialsResponseResult, len(a.users))
	for i, name := range a.users {
		result := &resp.Results[i]
		result.User, result.ErrorCode, result.ErrorMessage = name, errorCode(a.errs[name]), errorMessage(a.errs[name])
		if result.ErrorCode == kerr.UnknownServerError.Code {
			result.ErrorMessage = nil // as in Kafka
		}
	}
	return resp, nil
}

// namedUsers returns the users of a request, each once.
func namedUsers(req *kmsg.AlterUserSCRAMCredentialsRequest) []string {
	var names []string
	for i := range req.Deletions {
		names = append(names, req.Deletions[i].Name)
	}
	for i := range req.Upsertions {
		names = append(names, req.Upsertions[i].Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// scramAlteration is what a request comes to.
type scramAlteration struct {
	users   []string // in the order of the answer
	errs    map[string]error
	changes map[string]storage.ScramChange // by user
}

func (a *scramAlteration) fail(name string, err error) {
	if _, ok := a.errs[name]; !ok {
		a.users = append(a.users, name)
	}
	a.errs[name] = err
}

// decide returns the changes of a request to the credentials that there are now.
func (a *scramAlteration) decide(req *kmsg.AlterUserSCRAMCredentialsRequest, now storage.ScramCredentials) ([]storage.ScramChange, error) {
	*a = scramAlteration{errs: map[string]error{}, changes: map[string]storage.ScramChange{}}
	var order []string
	late := map[string]bool{} // users without a password, which Kafka finds after all else
	take := func(name string, number int8, check func(*storage.ScramChange) error) {
		if a.errs[name] != nil {
			return
		}
		if _, twice := a.changes[name]; twice {
			delete(a.changes, name)
			a.fail(name, detail(kerr.DuplicateResource, "the user is in the request more than once"))
			return
		}
		mechanism, ok := auth.ScramMechanism(number)
		c := storage.ScramChange{User: storage.ScramUser{Name: name, Mechanism: mechanism}}
		var err error
		switch {
		case name == "":
			err = detail(kerr.UnacceptableCredential, "a user without a name")
		case !ok:
			err = detail(kerr.UnsupportedSaslMechanism, fmt.Sprintf("no SCRAM mechanism has the number %d", number))
		default:
			err = check(&c)
		}
		if err != nil {
			a.fail(name, err)
			return
		}
		a.changes[name], order = c, append(order, name)
	}
	for i := range req.Deletions {
		d := &req.Deletions[i]
		take(d.Name, d.Mechanism, func(c *storage.ScramChange) error {
			if _, ok := now[c.User]; !ok {
				return detail(kerr.ResourceNotFound, "the user has no credential of the mechanism")
			}
			return nil
		})
	}
	for i := range req.Upsertions {
		u := &req.Upsertions[i]
		take(u.Name, u.Mechanism, func(c *storage.ScramChange) error {
			switch {
			case u.Iterations < auth.MinScramIterations:
				return detail(kerr.UnacceptableCredential, fmt.Sprintf("%d iterations, want at least %d", u.Iterations, auth.MinScramIterations))
			case u.Iterations > auth.MaxScramIterations:
				return detail(kerr.UnacceptableCredential, fmt.Sprintf("%d iterations, want at most %d", u.Iterations, auth.MaxScramIterations))
			}
			late[u.Name] = len(u.SaltedPassword) == 0
			c.Credential = new(auth.DeriveScramCredential(c.User.Mechanism, slices.Clone(u.Salt), u.SaltedPassword, int(u.Iterations)))
			return nil
		})
	}
	var changes []storage.ScramChange
	var done []string
	for _, name := range order {
		c, ok := a.changes[name]
		if !ok {
			continue
		}
		if late[name] {
			a.fail(name, kerr.UnknownServerError)
			continue
		}
		changes, done = append(changes, c), append(done, name)
	}
	if len(changes) > storage.MaxScramChanges {
		return nil, kerr.UnknownServerError
	}
	a.users = append(done, a.users...)
	return changes, nil
}
