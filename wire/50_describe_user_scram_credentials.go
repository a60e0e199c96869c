package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage"
)

// DescribeUserScramCredentials, key 50, version 0.
//
// Users are told in the order of the request, and all of them by name. Keys and salts never leave the server. Where there
// is no error, its message is empty and not null. Kafka: KafkaApis.handleDescribeUserScramCredentialsRequest,
// ScramImage.describe; KIP-554.

// describeUserScramCredentials answers a DescribeUserScramCredentials request.
func (s *Server) describeUserScramCredentials(r *request, req *kmsg.DescribeUserSCRAMCredentialsRequest) (*kmsg.DescribeUserSCRAMCredentialsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	resp.ErrorMessage = new("")
	resp.Results = []kmsg.DescribeUserSCRAMCredentialsResponseResult{}
	if !s.authorize(r, opDescribe, resourceCluster, clusterResource) {
		denied := detail(kerr.ClusterAuthorizationFailed, kerr.ClusterAuthorizationFailed.Description)
		resp.ErrorCode, resp.ErrorMessage = errorCode(denied), errorMessage(denied)
		for range req.Users {
			result := kmsg.NewDescribeUserSCRAMCredentialsResponseResult() // without the name, as in Kafka
			result.ErrorCode, result.ErrorMessage = resp.ErrorCode, resp.ErrorMessage
			resp.Results = append(resp.Results, result)
			if err := r.answerGrows(64); err != nil {
				return nil, err
			}
		}
		return resp, nil
	}
	all := s.store.ScramCredentials()
	mentions := map[string]int{}
	var users []string
	add := func(name string) {
		if mentions[name]++; mentions[name] == 1 {
			users = append(users, name)
		}
	}
	for i := range req.Users {
		add(req.Users[i].Name)
	}
	if len(req.Users) == 0 {
		for _, u := range all.Sorted() {
			add(u.Name)
		}
	}
	for _, name := range users {
		result := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		result.ErrorMessage = new("")
		result.User, result.CredentialInfos = name, credentialInfos(all, name)
		var err error
		switch {
		case len(req.Users) > 0 && mentions[name] > 1:
			err = detail(kerr.DuplicateResource, "the user is in the request more than once")
		case len(result.CredentialInfos) == 0:
			err = detail(kerr.ResourceNotFound, "the user has no SCRAM credential")
		}
		if err != nil {
			result.ErrorCode, result.ErrorMessage = errorCode(err), errorMessage(err)
			result.CredentialInfos = []kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo{}
		}
		resp.Results = append(resp.Results, result)
		if err := r.answerGrows(64 + len(name)); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// credentialInfos lists the mechanisms that a user has a credential of.
func credentialInfos(all storage.ScramCredentials, name string) []kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo {
	out := []kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo{}
	for _, mechanism := range []string{auth.ScramSHA256, auth.ScramSHA512} {
		if c, ok := all[storage.ScramUser{Name: name, Mechanism: mechanism}]; ok {
			info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
			info.Mechanism, info.Iterations = auth.ScramNumber(mechanism), int32(c.Iterations)
			out = append(out, info)
		}
	}
	return out
}

// scramCredential looks up what is kept of users' passwords.
func (s *Server) scramCredential(mechanism string) func(user string) (auth.ScramCredential, bool) {
	return func(user string) (auth.ScramCredential, bool) {
		c, ok := s.store.ScramCredentials()[storage.ScramUser{Name: user, Mechanism: mechanism}]
		return c, ok
	}
}
