// Types of mpbond.mjs. docs/openapi.json has all fields.

export const DEFAULT_SOCKET: string;

/** A place in the body of a request; both begin with 1. */
export interface Place {
  line: number;
  column: number;
}

/** A request that was refused. */
export class ApiError extends Error {
  readonly status: number;
  readonly reason: string;
  readonly place?: Place;
}

export type Mode = "bonded" | "standby" | "off";

/** Energy of a link whose radio the policy names. */
export interface Energy {
  radio: string;
  joules: number;
  /** The last seven days up to the present one, which comes last. */
  days?: { day: string; joules: number }[];
  /** Least bytes of transfers for which a helper is woken; null: for none. */
  woken_for?: { download_bytes: number | null; upload_bytes: number | null };
}

/** Energy of a radio of a pipe. */
export interface RadioEnergy {
  radio: string;
  joules: number;
  days?: { day: string; joules: number }[];
}

/** Energy of a pipe whose radios are named: of this device's, and of the helper's. */
export interface PipeEnergy {
  near: RadioEnergy;
  far?: RadioEnergy;
}

export interface Link {
  name: string;
  kind: "path" | "helper";
  state: "connecting" | "up" | "waiting" | "down" | "off";
  mode: Mode;
  max_segment_bytes?: number;
  error?: string;
  choice?: { state: "used" | "tried" | "standby"; reason: string; milliwatts?: number };
  ethernet?: { used: boolean; reason?: string };
  energy?: Energy;
  pipe_energy?: PipeEnergy;
  cap?: { used_bytes: number; bytes: number; resets: string; used_up?: boolean; days?: { day: string; bytes: number }[] };
  battery_percent?: number;
  charging?: boolean;
  lent_bytes_left?: number;
  limit_down_mbps?: number;
  limit_up_mbps?: number;
  metered?: boolean;
  metered_guessed?: boolean;
  roaming?: boolean;
  signal_dbm?: number;
}

/** The proxy, or a device that lends its link. */
export interface Device {
  id: string;
  role: "proxy" | "helper";
  name?: string;
  addresses: string[];
  links?: string[];
}

export interface Pairing {
  state: "none" | "waiting" | "asking" | "paired" | "failed";
  code?: string;
  text?: string;
  addresses?: string[];
  expires_in_s?: number;
  device?: { id: string; name: string };
  section?: string;
  error?: string;
}

export interface Fact {
  name: string;
  value: string | null;
  certainty: "known" | "guessed" | "unknown";
  origin: string;
}

export interface Stream {
  id: number;
  session: string;
  stream: number;
  client: string;
  destination: string;
  class: string;
  rule: string | null;
  opened_s: number;
  bytes_in: number;
  bytes_out: number;
  links: { name: string; bytes_in: number; bytes_out: number }[];
  application: Fact[];
}

/** Facts of a connection; those that are left out are unknown. */
export interface Question {
  port: number;
  domain?: string;
  ip?: string;
  app?: string;
  uid?: number;
  cgroup?: string;
  dscp?: number;
  source?: string;
}

export type EventType =
  | "link.up"
  | "link.down"
  | "link.suspect"
  | "helper.joined"
  | "helper.left"
  | "outage.begin"
  | "outage.end"
  | "policy.changed"
  | "stream.rule"
  | "cap.warn"
  | "cap.reached"
  | "pipe.chosen"
  | "pairing.request"
  | "battery.low";

/** An event, or the number of those that are no longer there. */
export type Event =
  | { id: number; at_s: number; type: Exclude<EventType, "stream.rule">; link?: string; reason?: string }
  | {
      id: number;
      at_s: number;
      type: "stream.rule";
      reason: string;
      stream: number;
      /** Absent for the default. */
      from?: string;
      to?: string;
    }
  | { lost: number };

/** Why an open connection is treated as it is. */
export interface StreamExplanation {
  id: number;
  destination: string;
  class: string;
  multipath: string;
  rule: string | null;
  line: number | null;
  policy_has_changed: boolean;
  links: {
    name: string;
    unusable: string | null;
    used: boolean;
    bytes_in: number;
    bytes_out: number;
  }[];
  now: Record<string, unknown>;
}

/** Counters of a link; bytes of streams since the daemon started. */
export interface LinkSample {
  name: string;
  state: string;
  bytes_in: number;
  bytes_out: number;
  rtt_ms: number | null;
  pad_ms: number | null;
  waiting_bytes: number;
}

/** Counters of all links, `at_s` after the start of the daemon. */
export interface Sample {
  at_s: number;
  links: LinkSample[];
}

export type PolicyMode = "auto" | "fastest" | "balanced" | "saver";

/** A primary, by the socket of its API. */
export class Client {
  constructor(path?: string, timeoutMs?: number);
  status(): Promise<Record<string, unknown>>;
  streams(
    page?: number,
    only?: { app?: string | null; destination?: string | null },
  ): AsyncGenerator<Stream>;
  explainStream(id: number | string): Promise<StreamExplanation>;
  stream(id: number | string): Promise<Stream>;
  setClass(
    id: number | string,
    streamClass: "realtime" | "interactive" | "bulk" | "background",
  ): Promise<Stream>;
  markChunkEnd(
    id: number | string,
    ends: { download?: number; upload?: number },
  ): Promise<Stream>;
  links(): Promise<Link[]>;
  link(name: string): Promise<Link>;
  setMode(name: string, mode: Mode): Promise<Link>;
  setFacts(
    name: string,
    facts: {
      metered?: boolean | null;
      metered_guessed?: boolean;
      roaming?: boolean | null;
      signal_dbm?: number | null;
    },
  ): Promise<Link>;
  devices(): Promise<Device[]>;
  unpair(id: string): Promise<Device[]>;
  pairing(): Promise<Pairing>;
  beginPairing(options?: { listen?: string; wait_s?: number; name?: string }): Promise<Pairing>;
  answerPairing(device: string, trust: boolean): Promise<Pairing>;
  cancelPairing(): Promise<Pairing>;
  policy(): Promise<{ text: string; tag: string }>;
  checkPolicy(text: string): Promise<{ error: string; line?: number; column?: number }[]>;
  putPolicy(text: string, tag: string): Promise<string>;
  policyMode(): Promise<PolicyMode>;
  setPolicyMode(mode: PolicyMode): Promise<PolicyMode>;
  explain(facts: Question): Promise<Record<string, unknown>>;
  events(options?: {
    since?: number;
    timeoutMs?: number;
    signal?: AbortSignal;
  }): AsyncGenerator<Event>;
  samples(options?: { everyMs?: number; signal?: AbortSignal }): AsyncGenerator<Sample>;
}
