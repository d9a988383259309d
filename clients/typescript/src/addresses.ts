import type { Call } from './call.js';
import type { components } from './schema.js';

type Schemas = components['schemas'];

/** An address to which a phone sends steps. Its key is not in it. */
export type UploadAddress = Schemas['UploadAddress'];

/** UploadAddresses keeps the addresses of the user's phones. Each call throws a StepboardError. */
export interface UploadAddresses {
  /** add makes an address. address is the whole of it, below baseUrl, and is given this once. */
  add(made: Schemas['NewUploadAddress']): Promise<Schemas['MadeAddress'] & { address: string }>;
  /** list returns the addresses, oldest first. */
  list(): Promise<UploadAddress[]>;
  /** change gives an address another name and time zone. */
  change(id: string, changed: Schemas['ChangedUploadAddress']): Promise<UploadAddress>;
  /** revoke ends an address for ever. */
  revoke(id: string): Promise<void>;
}

const path = '/v1/me/upload-addresses';

/** keepAddresses keeps the addresses of a client's user. */
export function keepAddresses(call: Call, baseUrl: string): UploadAddresses {
  return {
    async add(body) {
      const made = await call('POST', path, { body });
      return { ...made, address: baseUrl.replace(/\/$/, '') + made.path };
    },
    list: async () => (await call('GET', path)).upload_addresses,
    change: (id, body) => call('PUT', `${path}/{address}`, { path: { address: Number(id) }, body }),
    async revoke(id) {
      await call('DELETE', `${path}/{address}`, { path: { address: Number(id) } });
    },
  };
}
